-- Restore a reader's lease that this node has lost, unless one holder has the lock alone.
-- KEYS    1 lock, 2 fence counter
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 fence, 4 holder
-- Result  1 if the holder has a share of the lock now, else 0
-- include: members.lua, attempt.lua
local lock, counter, ttl, fence = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[3])
local owner, last = redis.call('GET', lock), tonumber(redis.call('GET', counter) or 0)
if owner and owner ~= READERS then return 0 end
if not owner then
  -- If this comes late, a writer may have been here meanwhile. A reader that joins must be above it.
  fence = math.max(fence, last + 1)
  open_to_readers(lock, ttl)
end
join(lock, ARGV[4], ttl, clock_ms())
if last < fence then redis.call('SET', counter, string.format('%.0f', fence), 'PX', ARGV[2]) end
return 1
