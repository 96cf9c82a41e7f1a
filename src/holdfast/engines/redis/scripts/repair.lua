-- Restore a lease that this node has lost, unless another holder has the lock alone.
-- KEYS    1 lock, 2 fence counter
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 fence, 4 shares (1: exclusive, 0: a reader),
--         5 holder
-- Result  1 if the holder has the lock now, or a share of it, else 0
-- include: members.lua, attempt.lua
local lock, counter, ttl, fence = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[3])
local reads, holder = ARGV[4] == '0', ARGV[5]
local owner, last = redis.call('GET', lock), tonumber(redis.call('GET', counter) or 0)
if owner == holder then return 1 end
if owner and not (reads and owner == READERS) then return 0 end
if not owner and reads then
  -- If this comes late, a writer may have been here meanwhile. A reader that joins must be above it.
  fence = math.max(fence, last + 1)
  open_to_readers(lock, ttl)
elseif not owner then
  redis.call('SET', lock, holder, 'PX', ttl)
end
if reads then join(lock, holder, ttl, clock_ms()) end
if last < fence then redis.call('SET', counter, string.format('%.0f', fence), 'PX', ARGV[2]) end
return 1
