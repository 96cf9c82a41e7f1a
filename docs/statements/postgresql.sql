-- The statements of holdfast on postgresql, as they are composed of the texts in
-- src/holdfast/engines/sql/statements.py and of those of this dialect. Made by
-- tests/engines/sql/test_statements_files.py. What each is for is in `Dialect`
-- (src/holdfast/engines/sql/dialect.py). `now` stands for
--     CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)

-- acquire
WITH taken AS (
    UPDATE holdfast_leases SET
        fence = CASE WHEN holder = :holder AND NOT offered THEN fence ELSE greatest(fence + 1, now) END,
        expires = CASE WHEN holder = :holder AND NOT offered THEN greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl)
                       ELSE now + :ttl END,
        ttl = CASE WHEN holder = :holder AND NOT offered THEN greatest(ttl, :ttl) ELSE :ttl END,
        holder = :holder,
        shares = :shares,
        offered = false
    WHERE name = (
        SELECT name FROM holdfast_leases WHERE name = (
            SELECT name FROM holdfast_leases
            WHERE name = :key AND now < :deadline
              AND (holder = :holder OR NOT queued AND (holder IS NULL OR expires <= now))
            FOR NO KEY UPDATE
        ) FOR UPDATE SKIP LOCKED
    )
    RETURNING fence
), made AS (
    INSERT INTO holdfast_leases (name, holder, shares, fence, ttl, expires)
    SELECT :key, :holder, :shares, now, :ttl, now + :ttl WHERE now < :deadline
    ON CONFLICT (name) DO NOTHING
    RETURNING fence
)
SELECT coalesce((SELECT fence FROM taken), (SELECT fence FROM made)),
       now, expires - now, ttl, holder
FROM (VALUES (1)) AS one LEFT JOIN holdfast_leases ON name = :key;

-- look
SELECT NULL, now, CASE WHEN holder = :marker THEN (SELECT min(expires - now) FROM holdfast_leases_members WHERE name = :key)
     ELSE expires - now END, ttl, holder, shares,
       (SELECT place FROM holdfast_leases_waiters WHERE holder = :holder), queued
FROM (SELECT 1) AS one LEFT JOIN holdfast_leases ON name = :key;

-- extend
UPDATE holdfast_leases SET expires = greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl), ttl = greatest(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND expires > now RETURNING 1;

-- release
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = :holder AND NOT queued RETURNING 1;

-- adopt
UPDATE holdfast_leases SET expires = now + ttl
WHERE name = :key AND (expires > now + ttl OR holder = :holder AND offered);

-- join
INSERT INTO holdfast_leases_waiters (holder, name, place, listener, pid, alive_until, shares)
SELECT :holder, :key,
       CASE WHEN :place > 0 AND is_vacant THEN :place
            ELSE greatest(now, coalesce(latest + 1, 0)) END,
       :listener, :pid, now + :own_life, :shares
FROM (
    SELECT max(place) AS latest,
           count(CASE WHEN place = :place AND holder <> :holder THEN 1 END) = 0 AS is_vacant
    FROM holdfast_leases_waiters WHERE name = :key
) AS queue WHERE now < :deadline AND EXISTS (
    SELECT 1 FROM holdfast_leases AS l
    WHERE l.name = :key AND (l.holder IS NULL OR l.holder <> :holder OR expires <= now)
) AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder)
ON CONFLICT (holder) DO UPDATE
SET listener = excluded.listener, pid = excluded.pid, alive_until = excluded.alive_until;

-- mark
UPDATE holdfast_leases SET queued = TRUE WHERE name = :key AND NOT queued;

-- touch
UPDATE holdfast_leases_waiters SET alive_until = now + :own_life WHERE holder = :holder AND pid = 0 RETURNING 1;

-- leave
DELETE FROM holdfast_leases_waiters WHERE holder = :holder;

-- free
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = :holder RETURNING 1;

-- bury
DELETE FROM holdfast_leases_waiters WHERE name = :key AND place < coalesce((
    SELECT place FROM holdfast_leases_waiters WHERE name = :key AND CASE WHEN pid = 0 THEN alive_until BETWEEN now AND now + :life ELSE EXISTS (SELECT 1 FROM pg_stat_get_activity(pid)) END ORDER BY place LIMIT 1
), 9223372036854775807) AND EXISTS (
    SELECT 1 FROM holdfast_leases WHERE name = :key
    AND (holder IS NULL OR holder = :marker OR expires <= now)
);

-- offer
UPDATE holdfast_leases SET
    offered = EXISTS (SELECT 1 FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1),
    ttl = coalesce((SELECT greatest(:offer, CASE WHEN pid = 0 THEN least(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer),
    expires = now + coalesce((SELECT greatest(:offer, CASE WHEN pid = 0 THEN least(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer),
    queued = EXISTS (SELECT 1 FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1),
    holder = (SELECT holder FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1),
    shares = 1
WHERE name = :key AND (holder IS NULL OR expires <= now)
  AND coalesce((SELECT shares FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), 1) = 1;

-- heads
SELECT w.holder, w.listener, pg_notify(w.listener, encode(w.holder, 'hex'))
FROM holdfast_leases AS l JOIN holdfast_leases_waiters AS w ON w.holder = l.holder
WHERE l.name = :key AND l.offered AND w.holder <> :holder AND w.listener <> '';

-- drop
DELETE FROM holdfast_leases_waiters WHERE holder = (SELECT holder FROM holdfast_leases WHERE name = :key AND offered);

-- take_away
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = coalesce(:only, holder) AND expires > now RETURNING 1;

-- inspect
SELECT seen.name, holder, fence, least(expires - now, ttl),
       (SELECT count(*) FROM holdfast_leases_waiters AS w WHERE w.name = seen.name AND CASE WHEN pid = 0 THEN alive_until BETWEEN now AND now + :life ELSE EXISTS (SELECT 1 FROM pg_stat_get_activity(pid)) END), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires
    FROM (
        SELECT * FROM holdfast_leases WHERE holder IS NOT NULL AND expires > now AND name = :key
    ) AS l LEFT JOIN holdfast_leases_members AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE expires > now ORDER BY seen.name;

-- listing
SELECT seen.name, holder, fence, least(expires - now, ttl),
       (SELECT count(*) FROM holdfast_leases_waiters AS w WHERE w.name = seen.name AND CASE WHEN pid = 0 THEN alive_until BETWEEN now AND now + :life ELSE EXISTS (SELECT 1 FROM pg_stat_get_activity(pid)) END), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires
    FROM (
        SELECT * FROM holdfast_leases WHERE holder IS NOT NULL AND expires > now AND
name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit

    ) AS l LEFT JOIN holdfast_leases_members AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE expires > now ORDER BY seen.name;

-- cell
SELECT value, is_text, version FROM holdfast_cells WHERE key = :key;

-- make_cell
INSERT INTO holdfast_cells (key, value, is_text, version)
SELECT :key, :value, :is_text, 1 FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cells WHERE key = :key) RETURNING 1;

-- set_cell
UPDATE holdfast_cells SET value = :value, is_text = :is_text, version = version + 1
WHERE key = :key AND version = :expect RETURNING 1;

-- reserve
INSERT INTO holdfast_leases (name, fence, ttl, expires) VALUES (:key, 0, 0, now)
ON CONFLICT (name) DO UPDATE SET queued = holdfast_leases.queued;

-- recount
UPDATE holdfast_leases_members SET expires = now + ttl
WHERE name = :key AND (expires > now + ttl OR holder = :holder AND offered);

-- expire
DELETE FROM holdfast_leases_members WHERE name = :key AND (expires <= now OR NOT EXISTS (
    SELECT 1 FROM holdfast_leases AS l WHERE l.name = :key AND l.holder = :marker
));

-- unfold
INSERT INTO holdfast_leases_members (name, holder, shares, ttl, offered, expires)
SELECT name, holder, shares, ttl, FALSE, least(expires, now + ttl) FROM holdfast_leases
WHERE name = :key AND shares <> 1 AND holder <> :marker AND NOT offered AND expires > now;

-- share
UPDATE holdfast_leases SET holder = :marker
WHERE name = :key AND holder <> :marker AND EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key);

-- enter
INSERT INTO holdfast_leases_members (name, holder, shares, ttl, offered, expires)
SELECT :key, :holder, :shares, :offer, TRUE, now + :offer FROM holdfast_leases AS l
WHERE l.name = :key AND :shares <> 1 AND now < :deadline
  AND NOT l.queued AND (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.shares <> :shares) AND (
    :shares = 0 OR :shares > (SELECT count(*) FROM holdfast_leases_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR expires <= now))
  AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder);

-- rise
UPDATE holdfast_leases SET fence = greatest(fence + 1, now), holder = :marker, offered = false
WHERE name = (
    SELECT name FROM holdfast_leases WHERE now < :deadline AND name = :key
      AND EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder)
      AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND NOT m.offered)
    FOR UPDATE SKIP LOCKED
);

-- confirm
UPDATE holdfast_leases_members SET
    expires = CASE WHEN offered THEN now + :ttl ELSE greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl) END,
    ttl = CASE WHEN offered THEN :ttl ELSE greatest(ttl, :ttl) END,
    offered = FALSE
WHERE name = :key AND holder = :holder AND now < :deadline AND EXISTS (
    SELECT 1 FROM holdfast_leases AS l WHERE l.name = :key AND l.holder = :marker AND NOT l.offered
);

-- prolong
UPDATE holdfast_leases_members SET expires = greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl), ttl = greatest(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND expires > now RETURNING 1;

-- remove
DELETE FROM holdfast_leases_members WHERE name = :key AND holder = :holder RETURNING 1;

-- admit
INSERT INTO holdfast_leases_members (name, holder, shares, ttl, offered, expires)
WITH front AS (
    SELECT holder, place, shares, CASE WHEN pid = 0 THEN alive_until BETWEEN now AND now + :life ELSE EXISTS (SELECT 1 FROM pg_stat_get_activity(pid)) END AS alive, greatest(:offer, CASE WHEN pid = 0 THEN least(alive_until - now, :longest_life) ELSE 0 END) AS lasting
    FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 100
), first AS (
    SELECT shares FROM front ORDER BY place LIMIT 1
)
SELECT :key, w.holder, w.shares, w.lasting, TRUE, now + w.lasting
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
       - (SELECT count(*) FROM holdfast_leases_members AS m WHERE m.name = :key))
  AND (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.shares <> first.shares) AND (
    first.shares = 0 OR first.shares > (SELECT count(*) FROM holdfast_leases_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR expires <= now))
  AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = w.holder);

-- woken
SELECT w.holder, w.listener, pg_notify(w.listener, encode(w.holder, 'hex'))
FROM holdfast_leases_members AS m JOIN holdfast_leases_waiters AS w ON w.holder = m.holder
WHERE m.name = :key AND w.holder <> :holder AND w.listener <> '';

-- drop_members
DELETE FROM holdfast_leases_waiters WHERE holder IN (SELECT holder FROM holdfast_leases_members WHERE name = :key);

-- tally
UPDATE holdfast_leases SET
    holder = CASE WHEN EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key) THEN :marker END,
    shares = coalesce((SELECT max(m.shares) FROM holdfast_leases_members AS m WHERE m.name = :key), shares),
    offered = EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key) AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND NOT m.offered),
    ttl = coalesce((SELECT max(m.ttl) FROM holdfast_leases_members AS m WHERE m.name = :key), ttl),
    expires = coalesce((SELECT max(m.expires) FROM holdfast_leases_members AS m WHERE m.name = :key), now)
        ,
    queued = EXISTS (SELECT 1 FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1)
WHERE name = :key AND (holder = :marker OR EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key));

-- peek
SELECT CASE WHEN l.holder = :marker AND EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder
            AND NOT m.offered) THEN fence END,
       now, CASE WHEN holder = :marker THEN (SELECT min(expires - now) FROM holdfast_leases_members WHERE name = :key)
     ELSE expires - now END, ttl, holder, shares,
       (SELECT place FROM holdfast_leases_waiters WHERE holder = :holder), queued,
       l.holder = :marker AND EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder), (l.holder = :marker AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.shares <> :shares) AND (
    :shares = 0 OR :shares > (SELECT count(*) FROM holdfast_leases_members AS m WHERE m.name = :key)
) OR NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key) AND (l.holder IS NULL OR expires <= now)),
       :shares = (SELECT shares FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1)
FROM (SELECT 1) AS one LEFT JOIN holdfast_leases AS l ON l.name = :key;

-- lock
SELECT 1 FROM holdfast_leases WHERE name = :key FOR NO KEY UPDATE;

-- extend_many
UPDATE holdfast_leases SET expires = greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl), ttl = greatest(ttl, :ttl)
WHERE name = ANY(:keys) AND holder = ANY(:holders) AND NOT offered AND expires > now RETURNING 1;
