-- include: fence.lua
-- Take the lock of one node of a quorum, or have a place in its waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 ttl (ms), 2 how long to keep the counter (ms),
--       3 channel on which to be woken ('': do not wait), 4 proposed fence, 5 holder
-- Gives the fence; or, if it is somebody else's, {time left (ms), holder}.
local ttl, keep, holder = ARGV[1], ARGV[2], ARGV[5]
if redis.call('SET', KEYS[1], holder, 'NX', 'PX', ttl) then
  if ARGV[3] ~= '' then redis.call('ZREM', KEYS[3], ARGV[3] .. ' ' .. holder) end
  return next_fence(ARGV[4], keep)
end
local owner = redis.call('GET', KEYS[1])
if owner == holder then return grant_again(ttl, keep) end
local left = redis.call('PTTL', KEYS[1])
if ARGV[3] ~= '' then
  local time = redis.call('TIME')
  redis.call('ZADD', KEYS[3], 'NX', time[1] * 1000000 + time[2], ARGV[3] .. ' ' .. holder)
  redis.call('PEXPIRE', KEYS[3], math.max(left, 0) + keep)
end
return {left, owner}
