-- Acquire the lock of a single server, or join its queue.
-- KEYS    1 lock, 2 fence counter, 3 queue
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 lifetime of an offer (ms), 4 channel of the
--         waiter ('': do not queue), 5 holder
-- Result  the fence; or, if another holder has the lock, {time left (ms), holder}
-- include: fence.lua
local ttl, keep, offer, channel, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- The usual case: the lock is free, and there is no queue.
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  redis.call('SET', KEYS[1], holder, 'PX', ttl)
  return next_fence(KEYS[2], 0, keep)
end
-- include: members.lua, queue.lua
local me = channel .. ' ' .. holder
local owner = redis.call('GET', KEYS[1])
if owner == holder then return grant_again(KEYS[1], KEYS[2], ttl, keep) end
if not owner then
  owner = pass_on(offer, keep, me)
  if not owner then
    redis.pcall('ZREM', KEYS[3], me)
    redis.call('SET', KEYS[1], holder, 'PX', ttl)
    return next_fence(KEYS[2], 0, keep)
  end
end
local left = redis.call('PTTL', KEYS[1])
if channel ~= '' then
  redis.call('ZADD', KEYS[3], 'NX', clock(), me)
  redis.call('PEXPIRE', KEYS[3], math.max(left, 0) + keep)
end
return {left, owner}
