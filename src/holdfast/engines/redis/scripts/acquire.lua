-- Take the lock of a single server, or join its queue.
-- KEYS  1 lock, 2 fence counter, 3 queue
-- ARGV  1 ttl (ms), 2 how long to keep the counter (ms), 3 how long an offer lasts (ms),
--       4 channel on which to be woken ('': do not queue), 5 holder
-- Gives the fence; or, if it is somebody else's, {time left (ms), holder}.
-- include: fence.lua
local ttl, keep, offer, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
-- Mostly nobody has it and nobody waits.
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  redis.call('SET', KEYS[1], holder, 'PX', ttl)
  return next_fence(KEYS[2], 0, keep)
end
-- include: again.lua, queue.lua
local me = ARGV[4] .. ' ' .. holder
local owner = redis.call('GET', KEYS[1])
if owner == holder then return grant_again(KEYS[1], KEYS[2], ttl, keep) end
local left = tonumber(offer)
if owner then
  left = redis.call('PTTL', KEYS[1])
else
  owner = offer_to_first(offer, keep, me)
  if not owner then
    redis.call('SET', KEYS[1], holder, 'PX', ttl)
    return next_fence(KEYS[2], 0, keep)
  end
end
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[3], 'NX', clock(), me)
  redis.call('PEXPIRE', KEYS[3], math.max(left, 0) + keep)
end
return {left, owner}
