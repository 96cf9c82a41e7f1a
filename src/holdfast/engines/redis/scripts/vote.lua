-- Acquire the lock of one node of a quorum, or a place in its queue.
-- KEYS    1 lock, 2 fence counter, 3 queue (missing: do not wait)
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 channel of the waiter (only with a queue;
--         '': it polls, and is not woken, but readers wait behind it); last two: proposed fence, attempt
--         of the holder
-- Result  the fence; or, if another holder has the lock, {time left (ms), its attempt}
-- Each argument costs the server half a microsecond, so there are no empty ones.
local lock, counter, queue, n = KEYS[1], KEYS[2], KEYS[3], #ARGV
local ttl, keep, channel, proposed, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[n - 1], ARGV[n]
local taken = redis.call('SET', lock, holder, 'NX', 'PX', ttl)
-- include: fence.lua, members.lua, attempt.lua
local me, number = read_attempt(holder)
if not taken then
  local owner = redis.call('GET', lock)
  if owner == holder then return grant_again(lock, counter, ttl, keep) end
  local whose, latest = read_attempt(owner)
  if whose ~= me or (latest or 0) > (number or 0) then
    local left = redis.call('PTTL', lock)
    if queue then
      local waiter, polls = channel .. ' ' .. me, channel == ''
      if not polls then
        redis.call('ZADD', queue, 'NX', clock(), waiter)
        redis.call('PEXPIRE', queue, math.max(left, 0) + keep)
      end
      -- It asks again when the readers' leases would have ended, and has some time for that; one that
      -- polls asks sooner.
      if owner == READERS and (waiting_writer(lock) or waiter) == waiter then
        redis.call('SET', writer_of(lock), waiter, 'PX', polls and 2000 or math.max(left, 0) + 500)
      end
    end
    return {left, owner}
  end
  -- An earlier attempt of the same holder has the lock. It has failed, so this one takes over.
  redis.call('SET', lock, holder, 'PX', ttl)
end
if queue then
  redis.call('ZREM', queue, channel .. ' ' .. me)
  forget_writer(lock, me)
end
return next_fence(counter, proposed, keep)
