-- Acquire a share of the lock of one node of a quorum, or a place in its queue.
-- KEYS    1 lock, 2 fence counter, 3 queue (missing: do not wait)
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 channel of the waiter (only with a queue);
--         last two: proposed fence, attempt of the holder
-- Result  the fence; or, if a writer has the lock, or is to have it next, {time left (ms), its holder, or
--         'shared 0' if it waits}
-- Any number may share it. An attempt is a member of its own, so an earlier one does not keep it out.
-- include: fence.lua, members.lua, attempt.lua
local lock, counter, queue, n = KEYS[1], KEYS[2], KEYS[3], #ARGV
local ttl, keep, channel, proposed, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[n - 1], ARGV[n]
local me, owner, time = read_attempt(holder), redis.call('GET', lock), clock_ms()
local writer = waiting_writer(lock)
if owner == READERS and writer and end_of(lock, holder, time) then writer = nil end
if writer or (owner and owner ~= READERS) then
  local left = redis.call('PTTL', owner and owner ~= READERS and lock or writer_of(lock))
  if queue then
    redis.call('ZADD', queue, 'NX', clock(), channel .. ' ' .. me)
    redis.call('ZADD', queue .. ':kinds', 0, me)
    redis.call('PEXPIRE', queue, math.max(left, 0) + keep)
    redis.call('PEXPIRE', queue .. ':kinds', math.max(left, 0) + keep)
  end
  -- The same from each node that has a writer next, whichever: several may wait, each on some nodes.
  return {left, owner or READERS}
end
if queue then
  redis.call('ZREM', queue, channel .. ' ' .. me)
  redis.call('ZREM', queue .. ':kinds', me)
end
-- Readers that share it have one fence, so that the nodes soon agree on it. To open it takes a greater
-- one, so that it is above that of the writer before.
local fence = owner and redis.call('GET', counter)
if owner then
  forget_ended(time)
else
  open_to_readers(lock, ttl)
end
join(lock, holder, ttl, time)
if not fence then return next_fence(counter, proposed, keep) end
if redis.call('PTTL', counter) < tonumber(keep) then redis.call('PEXPIRE', counter, keep) end
return tonumber(fence)
