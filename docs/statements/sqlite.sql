-- The statements of holdfast on sqlite, as they are composed of the texts in
-- src/holdfast/engines/sql/statements.py and of those of this dialect. Made by
-- tests/engines/sql/test_statements_files.py. What each is for is in `Dialect`
-- (src/holdfast/engines/sql/dialect.py). `now` stands for
--     :now

-- acquire
INSERT INTO holdfast_leases (name, holder, shares, fence, ttl, expires, boot)
VALUES (:key, :holder, :shares, (SELECT floor FROM holdfast_file) + 1,
        :ttl, :now + :ttl, :boot)
ON CONFLICT (name) DO UPDATE SET
    fence = CASE WHEN holder = excluded.holder AND NOT offered THEN fence
                 ELSE max(fence, excluded.fence - 1) + 1 END,
    expires = CASE WHEN holder = excluded.holder AND NOT offered AND boot = excluded.boot
                   THEN max(expires, excluded.expires) ELSE excluded.expires END,
    ttl = CASE WHEN holder = excluded.holder AND NOT offered
               THEN max(ttl, excluded.ttl) ELSE excluded.ttl END,
    holder = excluded.holder, shares = excluded.shares, boot = excluded.boot, offered = 0
WHERE holder = excluded.holder OR NOT queued AND (
    holder IS NULL OR boot = excluded.boot AND expires <= excluded.expires - excluded.ttl
)
RETURNING fence, :now, ttl, ttl, holder;

-- look
SELECT NULL, now, CASE WHEN holder = :marker THEN (SELECT min(CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END) FROM holdfast_members WHERE name = :key)
     ELSE CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END END, ttl, holder, shares,
       (SELECT place FROM holdfast_waiters WHERE holder = :holder), queued
FROM (SELECT 1) AS one LEFT JOIN holdfast_leases ON name = :key;

-- extend
UPDATE holdfast_leases SET expires = CASE WHEN boot = :boot THEN max(expires, :now + :ttl) ELSE :now + max(ttl, :ttl) END, boot = :boot, ttl = max(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND (boot <> :boot OR expires > :now);

-- release
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now, boot = :boot
WHERE name = :key AND holder = :holder AND NOT queued;

-- adopt
UPDATE holdfast_leases SET expires = now + ttl, boot = :boot
WHERE name = :key AND (boot <> :boot OR holder = :holder AND offered);

-- join
        INSERT INTO holdfast_waiters (holder, name, place, listener, alive_until, shares)
        SELECT :holder, :key,
               CASE WHEN :place > 0 AND is_vacant THEN :place
                    ELSE max(:now, coalesce(latest + 1, 0)) END,
               :listener, :now + :own_life, :shares
        FROM (
    SELECT max(place) AS latest,
           count(CASE WHEN place = :place AND holder <> :holder THEN 1 END) = 0 AS is_vacant
    FROM holdfast_waiters WHERE name = :key
) AS queue WHERE now < :deadline AND EXISTS (
    SELECT 1 FROM holdfast_leases AS l
    WHERE l.name = :key AND (l.holder IS NULL OR l.holder <> :holder OR boot = :boot AND expires <= :now)
) AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = :holder)
        ON CONFLICT (holder) DO UPDATE
        SET listener = excluded.listener, alive_until = excluded.alive_until;

-- mark
UPDATE holdfast_leases SET queued = TRUE WHERE name = :key AND NOT queued;

-- touch
UPDATE holdfast_waiters SET alive_until = now + :own_life WHERE holder = :holder AND listener = '';

-- leave
DELETE FROM holdfast_waiters WHERE holder = :holder;

-- free
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now, boot = :boot
WHERE name = :key AND holder = :holder;

-- bury
DELETE FROM holdfast_waiters WHERE name = :key AND place < coalesce((
    SELECT place FROM holdfast_waiters WHERE name = :key AND CASE WHEN listener = '' THEN alive_until BETWEEN now AND now + :life ELSE TRUE END ORDER BY place LIMIT 1
), 9223372036854775807) AND EXISTS (
    SELECT 1 FROM holdfast_leases WHERE name = :key
    AND (holder IS NULL OR holder = :marker OR boot = :boot AND expires <= :now)
);

-- offer
UPDATE holdfast_leases SET
    offered = EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1),
    ttl = coalesce((SELECT max(:offer, CASE WHEN listener = '' THEN min(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer),
    expires = now + coalesce((SELECT max(:offer, CASE WHEN listener = '' THEN min(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer), boot = :boot,
    queued = EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1),
    holder = (SELECT holder FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1),
    shares = 1
WHERE name = :key AND (holder IS NULL OR boot = :boot AND expires <= :now)
  AND coalesce((SELECT shares FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1), 1) = 1;

-- heads
SELECT w.holder, w.listener
FROM holdfast_leases AS l JOIN holdfast_waiters AS w ON w.holder = l.holder
WHERE l.name = :key AND l.offered AND w.holder <> :holder AND w.listener <> '';

-- drop
DELETE FROM holdfast_waiters WHERE holder = (SELECT holder FROM holdfast_leases WHERE name = :key AND offered);

-- take_away
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now, boot = :boot
WHERE name = :key AND holder = coalesce(:only, holder) AND (boot <> :boot OR expires > :now);

-- inspect
SELECT seen.name, holder, fence, min(CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END, ttl),
       (SELECT count(*) FROM holdfast_waiters AS w WHERE w.name = seen.name AND CASE WHEN listener = '' THEN alive_until BETWEEN now AND now + :life ELSE TRUE END), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires, coalesce(m.boot, l.boot) AS boot
    FROM (
        SELECT * FROM holdfast_leases WHERE holder IS NOT NULL AND (boot <> :boot OR expires > :now) AND name = :key
    ) AS l LEFT JOIN holdfast_members AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE (boot <> :boot OR expires > :now) ORDER BY seen.name;

-- listing
SELECT seen.name, holder, fence, min(CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END, ttl),
       (SELECT count(*) FROM holdfast_waiters AS w WHERE w.name = seen.name AND CASE WHEN listener = '' THEN alive_until BETWEEN now AND now + :life ELSE TRUE END), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires, coalesce(m.boot, l.boot) AS boot
    FROM (
        SELECT * FROM holdfast_leases WHERE holder IS NOT NULL AND (boot <> :boot OR expires > :now) AND
name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit

    ) AS l LEFT JOIN holdfast_members AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE (boot <> :boot OR expires > :now) ORDER BY seen.name;

-- cell
SELECT value, is_text, version FROM holdfast_cells WHERE name = :key;

-- make_cell
INSERT INTO holdfast_cells (name, value, is_text, version)
SELECT :key, :value, :is_text, 1 FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cells WHERE name = :key);

-- set_cell
UPDATE holdfast_cells SET value = :value, is_text = :is_text, version = version + 1
WHERE name = :key AND version = :expect;

-- reserve
INSERT INTO holdfast_leases (name, fence, ttl, expires, boot)
SELECT :key, floor, 0, :now, :boot FROM holdfast_file WHERE true
ON CONFLICT (name) DO NOTHING;

-- recount
UPDATE holdfast_members SET expires = now + ttl, boot = :boot
WHERE name = :key AND (boot <> :boot OR holder = :holder AND offered);

-- expire
DELETE FROM holdfast_members WHERE name = :key AND (boot = :boot AND expires <= :now OR NOT EXISTS (
    SELECT 1 FROM holdfast_leases AS l WHERE l.name = :key AND l.holder = :marker
));

-- unfold
INSERT INTO holdfast_members (name, holder, shares, ttl, offered, expires, boot)
SELECT name, holder, shares, ttl, FALSE, CASE WHEN boot = :boot THEN expires ELSE :now + ttl END, :boot FROM holdfast_leases
WHERE name = :key AND shares <> 1 AND holder <> :marker AND NOT offered AND (boot <> :boot OR expires > :now);

-- share
UPDATE holdfast_leases SET holder = :marker
WHERE name = :key AND holder <> :marker AND EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key);

-- enter
INSERT INTO holdfast_members (name, holder, shares, ttl, offered, expires, boot)
SELECT :key, :holder, :shares, :offer, TRUE, now + :offer, :boot FROM holdfast_leases AS l
WHERE l.name = :key AND :shares <> 1 AND now < :deadline
  AND NOT l.queued AND (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.shares <> :shares) AND (
    :shares = 0 OR :shares > (SELECT count(*) FROM holdfast_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR boot = :boot AND expires <= :now))
  AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = :holder);

-- rise
UPDATE holdfast_leases SET fence = max(fence, (SELECT floor FROM holdfast_file)) + 1, holder = :marker, offered = FALSE
WHERE name = :key AND now < :deadline
  AND EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = :holder) AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND NOT m.offered);

-- confirm
UPDATE holdfast_members SET
    expires = CASE WHEN offered THEN now + :ttl ELSE CASE WHEN boot = :boot THEN max(expires, :now + :ttl) ELSE :now + max(ttl, :ttl) END END,
    ttl = CASE WHEN offered THEN :ttl ELSE max(ttl, :ttl) END,
    offered = FALSE
WHERE name = :key AND holder = :holder AND now < :deadline AND EXISTS (
    SELECT 1 FROM holdfast_leases AS l WHERE l.name = :key AND l.holder = :marker AND NOT l.offered
);

-- prolong
UPDATE holdfast_members SET expires = CASE WHEN boot = :boot THEN max(expires, :now + :ttl) ELSE :now + max(ttl, :ttl) END, ttl = max(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND (boot <> :boot OR expires > :now);

-- remove
DELETE FROM holdfast_members WHERE name = :key AND holder = :holder;

-- admit
INSERT INTO holdfast_members (name, holder, shares, ttl, offered, expires, boot)
WITH front AS (
    SELECT holder, place, shares, CASE WHEN listener = '' THEN alive_until BETWEEN now AND now + :life ELSE TRUE END AS alive, max(:offer, CASE WHEN listener = '' THEN min(alive_until - now, :longest_life) ELSE 0 END) AS lasting
    FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 100
), first AS (
    SELECT shares FROM front ORDER BY place LIMIT 1
)
SELECT :key, w.holder, w.shares, w.lasting, TRUE, now + w.lasting, :boot
FROM holdfast_leases AS l CROSS JOIN first CROSS JOIN (
    SELECT holder, place, shares, lasting, row_number() OVER (ORDER BY place) AS number
    FROM front WHERE alive
) AS w
WHERE l.name = :key AND first.shares <> 1 AND w.shares = first.shares
  AND w.place < coalesce(
      (SELECT min(x.place) FROM front AS x WHERE x.shares <> first.shares AND x.alive),
      9223372036854775807
  )
  AND (first.shares = 0 OR w.number <= first.shares
       - (SELECT count(*) FROM holdfast_members AS m WHERE m.name = :key))
  AND (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.shares <> first.shares) AND (
    first.shares = 0 OR first.shares > (SELECT count(*) FROM holdfast_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR boot = :boot AND expires <= :now))
  AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = w.holder);

-- woken
SELECT w.holder, w.listener
FROM holdfast_members AS m JOIN holdfast_waiters AS w ON w.holder = m.holder
WHERE m.name = :key AND w.holder <> :holder AND w.listener <> '';

-- drop_members
DELETE FROM holdfast_waiters WHERE holder IN (SELECT holder FROM holdfast_members WHERE name = :key);

-- tally
UPDATE holdfast_leases SET
    holder = CASE WHEN EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key) THEN :marker END,
    shares = coalesce((SELECT max(m.shares) FROM holdfast_members AS m WHERE m.name = :key), shares),
    offered = EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key) AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND NOT m.offered),
    ttl = coalesce((SELECT max(m.ttl) FROM holdfast_members AS m WHERE m.name = :key), ttl),
    expires = coalesce((SELECT max(m.expires) FROM holdfast_members AS m WHERE m.name = :key), now)
        , boot = :boot,
    queued = EXISTS (SELECT 1 FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1)
WHERE name = :key AND (holder = :marker OR EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key));

-- peek
SELECT CASE WHEN l.holder = :marker AND EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = :holder
            AND NOT m.offered) THEN fence END,
       now, CASE WHEN holder = :marker THEN (SELECT min(CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END) FROM holdfast_members WHERE name = :key)
     ELSE CASE WHEN boot = :boot THEN expires - :now ELSE ttl + 1 END END, ttl, holder, shares,
       (SELECT place FROM holdfast_waiters WHERE holder = :holder), queued,
       l.holder = :marker AND EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.holder = :holder), (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key AND m.shares <> :shares) AND (
    :shares = 0 OR :shares > (SELECT count(*) FROM holdfast_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR boot = :boot AND expires <= :now)),
       :shares = (SELECT shares FROM holdfast_waiters WHERE name = :key ORDER BY place LIMIT 1)
FROM (SELECT 1) AS one LEFT JOIN holdfast_leases AS l ON l.name = :key;

-- forget
DELETE FROM holdfast_waiters WHERE listener = :listener;
