-- Take the lock of one node of a quorum, or have a place in its waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room (none: do not wait)
-- ARGV  1 ttl (ms), 2 how long to keep the counter (ms), then, if there is a waiting room, the
--       channel on which to be woken; last: proposed fence, holder, or its ballot
-- Gives the fence; or, if another holder has it, {time left (ms), holder}.
-- Each word costs the server half a microsecond, whatever it says; so there are no empty ones.
local lock, counter, room, n = KEYS[1], KEYS[2], KEYS[3], #ARGV
local ttl, keep, channel, proposed, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[n - 1], ARGV[n]
local taken, last = redis.call('SET', lock, holder, 'NX', 'PX', ttl), nil
if taken and not room then
  -- Mostly it is free, and the last fence lies before what is proposed, in the same second. Then the
  -- clock need not be asked: it was, for the first of that second, which lies less than one behind.
  last = redis.call('GET', counter)
  local wanted, before = tonumber(proposed), tonumber(last)
  if before and before < wanted and wanted - wanted % 1000000 <= before then
    redis.call('SET', counter, proposed, 'PX', keep)
    return wanted
  end
end
-- include: fence.lua
if not taken then
  local owner = redis.call('GET', lock)
-- include: again.lua, ballot.lua
  if owner == holder then return grant_again(lock, counter, ttl, keep) end
  local me, number = read_ballot(holder)
  local whose, latest = read_ballot(owner)
  if whose ~= me or (latest or 0) > (number or 0) then
    local left = redis.call('PTTL', lock)
    if room then
      redis.call('ZADD', room, 'NX', clock(), channel .. ' ' .. me)
      redis.call('PEXPIRE', room, math.max(left, 0) + keep)
    end
    return {left, owner}
  end
  -- It was granted to an earlier try of the same holder, which has come to nothing.
  redis.call('SET', lock, holder, 'PX', ttl)
end
if room then
  redis.call('ZREM', room, channel .. ' ' .. string.match(holder, '^[^#]*'))
end
return next_fence(counter, proposed, keep, last)
