-- Take the lock of one node of a quorum, or have a place in its waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 ttl (ms), 2 how long to keep the counter (ms),
--       3 channel on which to be woken ('': do not wait), 4 proposed fence, 5 holder, or its ballot
-- Gives the fence; or, if it is somebody else's, {time left (ms), holder}.
-- include: fence.lua
local ttl, keep, holder = ARGV[1], ARGV[2], ARGV[5]
if not redis.call('SET', KEYS[1], holder, 'NX', 'PX', ttl) then
  local owner = redis.call('GET', KEYS[1])
  if owner == holder then return grant_again(ttl, keep) end
-- include: ballot.lua
  local me, number = read_ballot(holder)
  local whose, last = read_ballot(owner)
  if whose ~= me or (last or 0) > (number or 0) then
    local left = redis.call('PTTL', KEYS[1])
    if ARGV[3] ~= '' then
      local time = redis.call('TIME')
      redis.call('ZADD', KEYS[3], 'NX', time[1] * 1000000 + time[2], ARGV[3] .. ' ' .. me)
      redis.call('PEXPIRE', KEYS[3], math.max(left, 0) + keep)
    end
    return {left, owner}
  end
  -- It was granted to an earlier try of the same holder, which has come to nothing.
  redis.call('SET', KEYS[1], holder, 'PX', ttl)
end
if ARGV[3] ~= '' then
  redis.call('ZREM', KEYS[3], ARGV[3] .. ' ' .. string.match(holder, '^[^#]*'))
end
return next_fence(ARGV[4], keep)
