-- The statements of holdfast on mariadb, as they are composed of the texts in
-- src/holdfast/engines/sql/statements.py and of those of this dialect. Made by
-- tests/engines/sql/test_statements_files.py. What each is for is in `Dialect`
-- (src/holdfast/engines/sql/dialect.py). `now` stands for
--     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- acquire
SET STATEMENT max_statement_time = :lock_wait FOR
INSERT INTO holdfast_leases (name, holder, shares, fence, ttl, expires)
SELECT :key, :holder, :shares, now, :ttl, now + :ttl FROM DUAL WHERE now < :deadline
ON DUPLICATE KEY UPDATE
    fence = IF((holder = VALUES(holder) AND offered OR NOT queued AND (holder IS NULL OR expires <= now)), GREATEST(fence + 1, VALUES(fence)), fence),
    ttl = IF((holder = VALUES(holder) AND offered OR NOT queued AND (holder IS NULL OR expires <= now)), VALUES(ttl), IF(holder = VALUES(holder), GREATEST(ttl, VALUES(ttl)), ttl)),
    shares = IF((holder = VALUES(holder) AND offered OR NOT queued AND (holder IS NULL OR expires <= now)), VALUES(shares), shares),
    holder = IF((holder = VALUES(holder) AND offered OR NOT queued AND (holder IS NULL OR expires <= now)), VALUES(holder), holder),
    offered = IF(holder = VALUES(holder), 0, offered),
    expires = IF(holder = VALUES(holder),
                 GREATEST(LEAST(expires, now + ttl), VALUES(expires)), expires)
 RETURNING IF(holder = :holder AND NOT offered, fence, NULL) AS fence,
now AS now, expires - now AS remaining, ttl, holder;

-- look
SELECT NULL, now, CASE WHEN holder = :marker THEN (SELECT min(expires - now) FROM holdfast_leases_members WHERE name = :key)
     ELSE expires - now END, ttl, holder, shares,
       (SELECT place FROM holdfast_leases_waiters WHERE holder = :holder), queued
FROM (SELECT 1) AS one LEFT JOIN holdfast_leases ON name = :key;

-- extend
UPDATE holdfast_leases SET expires = greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl), ttl = greatest(ttl, :ttl)
WHERE name = :key AND holder = :holder AND NOT offered AND expires > now;

-- release
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = :holder AND NOT queued;

-- adopt
UPDATE holdfast_leases SET expires = now + ttl
WHERE name = :key AND (expires > now + ttl OR holder = :holder AND offered);

-- join
INSERT INTO holdfast_leases_waiters (holder, name, place, alive_until, shares)
SELECT :holder, :key,
       IF(:place > 0 AND is_vacant, :place, GREATEST(now, COALESCE(latest + 1, 0))),
       now + :own_life, :shares
FROM (
    SELECT max(place) AS latest,
           count(CASE WHEN place = :place AND holder <> :holder THEN 1 END) = 0 AS is_vacant
    FROM holdfast_leases_waiters WHERE name = :key
) AS queue WHERE now < :deadline AND EXISTS (
    SELECT 1 FROM holdfast_leases AS l
    WHERE l.name = :key AND (l.holder IS NULL OR l.holder <> :holder OR expires <= now)
) AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder)
ON DUPLICATE KEY UPDATE alive_until = VALUES(alive_until);

-- mark
UPDATE holdfast_leases SET queued = TRUE WHERE name = :key AND NOT queued;

-- touch
UPDATE holdfast_leases_waiters SET alive_until = now + :own_life WHERE holder = :holder AND TRUE;

-- leave
DELETE FROM holdfast_leases_waiters WHERE holder = :holder;

-- free
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = :holder;

-- bury
DELETE FROM holdfast_leases_waiters WHERE name = :key AND place < @holdfast_front AND EXISTS (
    SELECT 1 FROM holdfast_leases WHERE name = :key
    AND (holder IS NULL OR holder = :marker OR expires <= now)
);

-- offer
UPDATE holdfast_leases SET
    offered = EXISTS (SELECT 1 FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1),
    ttl = coalesce((SELECT greatest(:offer, CASE WHEN TRUE THEN least(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer),
    expires = now + coalesce((SELECT greatest(:offer, CASE WHEN TRUE THEN least(alive_until - now, :longest_life) ELSE 0 END) FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), :offer),
    queued = EXISTS (SELECT 1 FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1 OFFSET 1),
    holder = (SELECT holder FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1),
    shares = 1
WHERE name = :key AND (holder IS NULL OR expires <= now)
  AND coalesce((SELECT shares FROM holdfast_leases_waiters WHERE name = :key ORDER BY place LIMIT 1), 1) = 1;

-- heads
SELECT w.holder, ''
FROM holdfast_leases AS l STRAIGHT_JOIN holdfast_leases_waiters AS w ON w.holder = l.holder
WHERE l.name = :key AND l.offered AND w.holder <> :holder AND TRUE;

-- drop
DELETE FROM holdfast_leases_waiters WHERE holder = (SELECT holder FROM holdfast_leases WHERE name = :key AND offered);

-- take_away
UPDATE holdfast_leases SET holder = NULL, offered = FALSE, expires = now
WHERE name = :key AND holder = coalesce(:only, holder) AND expires > now;

-- inspect
SELECT seen.name, holder, fence, least(expires - now, ttl),
       (SELECT count(*) FROM holdfast_leases_waiters AS w WHERE w.name = seen.name AND CASE WHEN TRUE THEN alive_until BETWEEN now AND now + :life ELSE TRUE END), shares
FROM (
    SELECT l.name, coalesce(m.holder, l.holder) AS holder, l.fence, l.shares,
           coalesce(m.ttl, l.ttl) AS ttl, coalesce(m.expires, l.expires) AS expires
    FROM (
        SELECT * FROM holdfast_leases WHERE holder IS NOT NULL AND expires > now AND name = :key
    ) AS l LEFT JOIN holdfast_leases_members AS m ON m.name = l.name AND l.holder = :marker
) AS seen WHERE expires > now ORDER BY seen.name;

-- listing
SELECT seen.name, holder, fence, least(expires - now, ttl),
       (SELECT count(*) FROM holdfast_leases_waiters AS w WHERE w.name = seen.name AND CASE WHEN TRUE THEN alive_until BETWEEN now AND now + :life ELSE TRUE END), shares
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
SELECT value, is_text, version FROM holdfast_cells WHERE name = :key;

-- make_cell
INSERT INTO holdfast_cells (name, value, is_text, version)
SELECT :key, :value, :is_text, 1 FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cells WHERE name = :key);

-- set_cell
UPDATE holdfast_cells SET value = :value, is_text = :is_text, version = version + 1
WHERE name = :key AND version = :expect;

-- reserve
INSERT INTO holdfast_leases (name, fence, ttl, expires) VALUES (:key, now, 0, now)
ON DUPLICATE KEY UPDATE queued = queued;

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
SET STATEMENT max_statement_time = :lock_wait FOR
UPDATE holdfast_leases SET fence = greatest(fence + 1, now), holder = :marker, offered = FALSE
WHERE name = :key AND now < :deadline
  AND EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND m.holder = :holder) AND NOT EXISTS (SELECT 1 FROM holdfast_leases_members AS m WHERE m.name = :key AND NOT m.offered);

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
WHERE name = :key AND holder = :holder AND NOT offered AND expires > now;

-- remove
DELETE FROM holdfast_leases_members WHERE name = :key AND holder = :holder;

-- admit
INSERT INTO holdfast_leases_members (name, holder, shares, ttl, offered, expires)
WITH front AS (
    SELECT holder, place, shares, CASE WHEN TRUE THEN alive_until BETWEEN now AND now + :life ELSE TRUE END AS alive, greatest(:offer, CASE WHEN TRUE THEN least(alive_until - now, :longest_life) ELSE 0 END) AS lasting
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
SELECT w.holder, ''
FROM holdfast_leases_members AS m STRAIGHT_JOIN holdfast_leases_waiters AS w ON w.holder = m.holder
WHERE m.name = :key AND w.holder <> :holder AND TRUE;

-- drop_members
DELETE w FROM holdfast_leases_members AS m STRAIGHT_JOIN holdfast_leases_waiters AS w ON w.holder = m.holder
WHERE m.name = :key;

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
SELECT 1 FROM holdfast_leases WHERE name = :key FOR UPDATE;

-- front
SET @holdfast_front = coalesce((
    SELECT place FROM holdfast_leases_waiters WHERE name = :key AND CASE WHEN TRUE THEN alive_until BETWEEN now AND now + :life ELSE TRUE END ORDER BY place LIMIT 1
), 9223372036854775807);

-- extend_many
UPDATE holdfast_leases SET expires = greatest(least(expires, now + greatest(ttl, :ttl)), now + :ttl), ttl = GREATEST(ttl, :ttl)
WHERE name IN (:keys) AND holder IN (:holders) AND NOT offered AND expires > now;
