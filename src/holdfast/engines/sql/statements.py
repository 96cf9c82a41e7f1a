"""The SQL that all dialects have in common; what each statement is for is in `dialect`.

Texts have slots in braces: the names of the tables, and expressions. `SLOTS` has the expressions as
most dialects write them. A dialect names those that it writes differently, and adds or replaces
whole statements where it has to.

In an UPDATE of MariaDB, each assignment sees those before it: a column that others are computed
from is set after them.

Locks that several hold at once, semaphores and read locks:

A share of a lock that is free is taken, extended and released as an exclusive lock is, by one
statement on the lease's row, which has the shares of its holder.

Those that share a lock are rows of a table of their own: name, holder, shares, ttl, expires,
offered. The lease's row stays the gate. Its holder is `MARKER` then. It expires with the last
member, and is `offered` until a member has confirmed. Each transaction on it locks that row first,
and so do all that write members. It makes one that has the lock alone a member (`unfold`, `share`),
and ends by bringing the row up to date with the members (`tally`).

What can happen:

- A member's time is over: the next transaction on the name deletes it (`expire`), and what it
  leaves is offered to the queue. The answer to a waiter has the time of the member that ends first.
- The last member's time is over: the row has expired with it. An exclusive client takes it over by
  its one statement and leaves rows of members behind. They mean nothing while the row's holder is
  not `MARKER`, and are deleted before it is `MARKER` again.
- A member is released while others remain: the row expires with the last of those.
- A member is extended after its end: it was deleted, so it is not found.
- Several are offered the lock at once (`admit`): each is a member whose time is that of an offer,
  until it has confirmed. The first to confirm raises the fence, for all that come while a member
  is left.
- A waiter died: it is skipped, as for an exclusive lock. One that dies after it was offered a share
  keeps that for the time of an offer.
- The clock is set back: no member lasts longer than its ttl from now (`recount`).
- A transaction relies on the lease of the last exclusive holder: the fence cannot rise, and the
  asker has an offer meanwhile.
"""

from collections.abc import Callable, Collection, Mapping

from holdfast.engines.sql.dialect import Dialect, Text

SLOTS = {
    "now": "",  # each dialect has its own clock
    "greatest": "greatest",
    "least": "least",
    # What shows that a change was made.
    "done": "RETURNING 1",
    # Of a lease, or of a member. Only SQLite knows several boots, each with a clock of its own.
    "expired": "expires <= {now}",
    "running": "expires > {now}",
    "remaining": "expires - {now}",
    "is_of_another_clock": "expires > {now} + ttl",
    "set_boot": "",
    "boot_column": "",
    "boot_value": "",
    "boot_seen": "",
    # When it ends if it is extended; and if it is not, by the clock as it is now.
    "extended": "greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl)",
    "ends": "least(expires, {now} + ttl)",
    # A new fence is no less than the clock: idle rows can be deleted, and a replica that missed the
    # last grants before it was promoted still gives greater ones.
    "next_fence": "{greatest}(fence + 1, {now})",
    "any_member": "SELECT 1 FROM {members} AS m WHERE m.name = :key",
    "until_free": """
CASE WHEN holder = :marker THEN (SELECT min({remaining}) FROM {members} WHERE name = :key)
     ELSE {remaining} END
""",
    # Of a waiter.
    "polls": "TRUE",
    "listens": "TRUE",
    "alive": """
CASE WHEN {polls} THEN alive_until BETWEEN {now} AND {now} + :life ELSE {listens} END
""",
    # Of a waiter that was marked before the clock was set back, no longer than any may be silent.
    "offer_lasts": """
{greatest}(:offer, CASE WHEN {polls} THEN {least}(alive_until - {now}, :longest_life) ELSE 0 END)
""",
    "listener": "w.listener",
    "can_be_woken": "w.listener <> ''",
    "notify": "",
    "join": "JOIN",
    "from_first_waiter": "FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1",
    # The last place, and whether no other has that of the asker: it lost it for being stopped, and
    # the clock was set back.
    "queue": """
(
    SELECT max(place) AS latest,
           count(CASE WHEN place = :place AND holder <> :holder THEN 1 END) = 0 AS is_vacant
    FROM {waiters} WHERE name = :key
) AS queue
""",
    # Whether the asker still waits, and neither has the lock nor is offered it, as after a reply
    # that was lost.
    "must_wait": """
{now} < :deadline AND EXISTS (
    SELECT 1 FROM {leases} AS l
    WHERE l.name = :key AND (l.holder IS NULL OR l.holder <> :holder OR {expired})
) AND NOT EXISTS ({any_member} AND m.holder = :holder)
""",
    "first_alive": """
coalesce((
    SELECT place FROM {waiters} WHERE name = :key AND {alive} ORDER BY place LIMIT 1
), 9223372036854775807)
""",
    # The place behind the dead waiters that come first.
    "front": "{first_alive}",
    "cell_name": "name",
}

ROOM = """
(l.holder = :marker AND NOT EXISTS ({any_member} AND m.shares <> {shares}) AND (
    {shares} = 0 OR {shares} > (SELECT count(*) FROM {members} AS m WHERE m.name = :key)
) OR NOT EXISTS ({any_member}) AND (l.holder IS NULL OR {expired}))
"""
"""Whether there is room for one more with these shares."""

SEEN = """
SELECT seen.name, holder, fence, {least}({remaining}, ttl),
       (SELECT count(*) FROM {waiters} AS w WHERE w.name = seen.name AND {alive}), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires{boot_seen}
    FROM (
        SELECT * FROM {leases} WHERE holder IS NOT NULL AND {running} AND CONDITION
    ) AS l LEFT JOIN {members} AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE {running} ORDER BY seen.name
"""

TEXTS = {
    "look": """
SELECT NULL, {now}, {until_free}, ttl, holder, shares,
       (SELECT place FROM {waiters} WHERE holder = :holder), queued
FROM (SELECT 1) AS one LEFT JOIN {leases} ON name = :key
""",
    "extend": """
UPDATE {leases} SET expires = {extended}{set_boot}, ttl = {greatest}(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND {running} {done}
""",
    "release": """
UPDATE {leases} SET holder = NULL, offered = FALSE, expires = {now}{set_boot}
WHERE name = :key AND holder = :holder AND NOT queued {done}
""",
    "adopt": """
UPDATE {leases} SET expires = {now} + ttl{set_boot}
WHERE name = :key AND ({is_of_another_clock} OR holder = :holder AND offered)
""",
    "mark": "UPDATE {leases} SET queued = TRUE WHERE name = :key AND NOT queued",
    "touch": """
UPDATE {waiters} SET alive_until = {now} + :own_life WHERE holder = :holder AND {polls} {done}
""",
    "leave": "DELETE FROM {waiters} WHERE holder = :holder",
    "free": """
UPDATE {leases} SET holder = NULL, offered = FALSE, expires = {now}{set_boot}
WHERE name = :key AND holder = :holder {done}
""",
    "bury": """
DELETE FROM {waiters} WHERE name = :key AND place < {front} AND EXISTS (
    SELECT 1 FROM {leases} WHERE name = :key
    AND (holder IS NULL OR holder = :marker OR {expired})
)
""",
    "offer": """
UPDATE {leases} SET
    offered = EXISTS (SELECT 1 {from_first_waiter}),
    ttl = coalesce((SELECT {offer_lasts} {from_first_waiter}), :offer),
    expires = {now} + coalesce((SELECT {offer_lasts} {from_first_waiter}), :offer){set_boot},
    queued = EXISTS (SELECT 1 {from_first_waiter} OFFSET 1),
    holder = (SELECT holder {from_first_waiter}),
    shares = 1
WHERE name = :key AND (holder IS NULL OR {expired})
  AND coalesce((SELECT shares {from_first_waiter}), 1) = 1
""",
    "heads": """
SELECT w.holder, {listener}{notify}
FROM {leases} AS l {join} {waiters} AS w ON w.holder = l.holder
WHERE l.name = :key AND l.offered AND w.holder <> :holder AND {can_be_woken}
""",
    "drop": """
DELETE FROM {waiters} WHERE holder = (SELECT holder FROM {leases} WHERE name = :key AND offered)
""",
    "take_away": """
UPDATE {leases} SET holder = NULL, offered = FALSE, expires = {now}{set_boot}
WHERE name = :key AND holder = coalesce(:only, holder) AND {running} {done}
""",
    "inspect": SEEN.replace("CONDITION", "name = :key"),
    "listing": SEEN.replace(
        "CONDITION",
        """
name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit
""",
    ),
    "cell": "SELECT value, is_text, version FROM {cells} WHERE {cell_name} = :key",
    "make_cell": """
INSERT INTO {cells} ({cell_name}, value, is_text, version)
SELECT :key, :value, :is_text, 1 FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM {cells} WHERE {cell_name} = :key) {done}
""",
    "set_cell": """
UPDATE {cells} SET value = :value, is_text = :is_text, version = version + 1
WHERE {cell_name} = :key AND version = :expect {done}
""",
    # For locks that several hold at once. Members of another clock are counted anew (`recount`)
    # before each other statement.
    "recount": """
UPDATE {members} SET expires = {now} + ttl{set_boot}
WHERE name = :key AND ({is_of_another_clock} OR holder = :holder AND offered)
""",
    "expire": """
DELETE FROM {members} WHERE name = :key AND ({expired} OR NOT EXISTS (
    SELECT 1 FROM {leases} AS l WHERE l.name = :key AND l.holder = :marker
))
""",
    "unfold": """
INSERT INTO {members} (name, holder, shares, ttl, offered, expires{boot_column})
SELECT name, holder, shares, ttl, FALSE, {ends}{boot_value} FROM {leases}
WHERE name = :key AND shares <> 1 AND holder <> :marker AND NOT offered AND {running}
""",
    "share": """
UPDATE {leases} SET holder = :marker
WHERE name = :key AND holder <> :marker AND EXISTS ({any_member})
""",
    "enter": """
INSERT INTO {members} (name, holder, shares, ttl, offered, expires{boot_column})
SELECT :key, :holder, :shares, :offer, TRUE, {now} + :offer{boot_value} FROM {leases} AS l
WHERE l.name = :key AND :shares <> 1 AND {now} < :deadline
  AND NOT l.queued AND {room}
  AND NOT EXISTS ({any_member} AND m.holder = :holder)
""",
    # A transaction that relies on the last lease keeps the fence from being changed.
    "rise": """
UPDATE {leases} SET fence = {next_fence}, holder = :marker, offered = FALSE
WHERE name = :key AND {now} < :deadline
  AND EXISTS ({any_member} AND m.holder = :holder) AND NOT EXISTS ({any_member} AND NOT m.offered)
""",
    "confirm": """
UPDATE {members} SET
    expires = CASE WHEN offered THEN {now} + :ttl ELSE {extended} END,
    ttl = CASE WHEN offered THEN :ttl ELSE {greatest}(ttl, :ttl) END,
    offered = FALSE
WHERE name = :key AND holder = :holder AND {now} < :deadline AND EXISTS (
    SELECT 1 FROM {leases} AS l WHERE l.name = :key AND l.holder = :marker AND NOT l.offered
)
""",
    "prolong": """
UPDATE {members} SET expires = {extended}, ttl = {greatest}(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND {running} {done}
""",
    "remove": "DELETE FROM {members} WHERE name = :key AND holder = :holder {done}",
    "admit": """
INSERT INTO {members} (name, holder, shares, ttl, offered, expires{boot_column})
WITH front AS (
    SELECT holder, place, shares, {alive} AS alive, {offer_lasts} AS lasting
    FROM {waiters} WHERE name = :key ORDER BY place LIMIT 100
), first AS (
    SELECT shares FROM front ORDER BY place LIMIT 1
)
SELECT :key, w.holder, w.shares, w.lasting, TRUE, {now} + w.lasting{boot_value}
FROM {leases} AS l CROSS JOIN first CROSS JOIN (
    SELECT holder, place, shares, lasting, row_number() OVER (ORDER BY place) AS number
    FROM front WHERE alive
) AS w
WHERE l.name = :key AND first.shares <> 1 AND w.shares = first.shares
  AND w.place < coalesce(
      (SELECT min(x.place) FROM front AS x WHERE x.shares <> first.shares AND x.alive),
      9223372036854775807
  )
  AND (first.shares = 0 OR w.number <= first.shares
       - (SELECT count(*) FROM {members} AS m WHERE m.name = :key))
  AND {room_for_first}
  AND NOT EXISTS ({any_member} AND m.holder = w.holder)
""",
    "woken": """
SELECT w.holder, {listener}{notify}
FROM {members} AS m {join} {waiters} AS w ON w.holder = m.holder
WHERE m.name = :key AND w.holder <> :holder AND {can_be_woken}
""",
    "drop_members": """
DELETE FROM {waiters} WHERE holder IN (SELECT holder FROM {members} WHERE name = :key)
""",
    "tally": """
UPDATE {leases} SET
    holder = CASE WHEN EXISTS ({any_member}) THEN :marker END,
    shares = coalesce((SELECT max(m.shares) FROM {members} AS m WHERE m.name = :key), shares),
    offered = EXISTS ({any_member}) AND NOT EXISTS ({any_member} AND NOT m.offered),
    ttl = coalesce((SELECT max(m.ttl) FROM {members} AS m WHERE m.name = :key), ttl),
    expires = coalesce((SELECT max(m.expires) FROM {members} AS m WHERE m.name = :key), {now})
        {set_boot},
    queued = EXISTS (SELECT 1 {from_first_waiter})
WHERE name = :key AND (holder = :marker OR EXISTS ({any_member}))
""",
    "peek": """
SELECT CASE WHEN l.holder = :marker AND EXISTS ({any_member} AND m.holder = :holder
            AND NOT m.offered) THEN fence END,
       {now}, {until_free}, ttl, holder, shares,
       (SELECT place FROM {waiters} WHERE holder = :holder), queued,
       l.holder = :marker AND EXISTS ({any_member} AND m.holder = :holder), {room},
       :shares = (SELECT shares {from_first_waiter})
FROM (SELECT 1) AS one LEFT JOIN {leases} AS l ON l.name = :key
""",
}


def fill_slots(tables: Mapping[str, str], **own: str) -> dict[str, str]:
    """The slots of one dialect, each filled with those before it: the tables, and expressions, of
    which `own` are the dialect's."""
    slots = dict(tables)
    for name, text in (SLOTS | own).items():
        slots[name] = text.strip().format_map(slots)
    for name, shares in (("room", ":shares"), ("room_for_first", "first.shares")):
        slots[name] = ROOM.strip().format_map(slots | {"shares": shares})
    return slots


def make_dialect(
    slots: Mapping[str, str],
    text: Callable[[str], Text],
    own: Mapping[str, str],
    skipping: Collection[str] = (),
) -> Dialect:
    """The statements of one dialect. `own`: those that it writes differently, or has alone.
    `skipping`: those that find nothing where a row is locked."""
    found = {name: text(sql.format_map(slots)) for name, sql in (TEXTS | dict(own)).items()}
    for name in skipping:
        found[name].skips_locked = True
    return Dialect(**found)
