-- Give back what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 whether to wake waiters ('1' or '0'), 2 after how long those behind them should try (ms),
--       3 channel, 4 holder, or one of its ballots: that and earlier ones ('': whoever has it, an
--       operator wants so)
-- Gives 1 if the lock was given back, 0 if it is somebody else's, -1 if nobody had it.
local owner, holder = redis.call('GET', KEYS[1]), ARGV[4]
-- Mostly nobody waits.
if owner == holder and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
-- include: ballot.lua
local me, last = read_ballot(holder)
redis.call('ZREM', KEYS[3], ARGV[3] .. ' ' .. me)
if owner and holder ~= '' then
  local whose, number = read_ballot(owner)
  if whose ~= me or (last and (number or 0) > last) then return 0 end
end
if owner then redis.call('DEL', KEYS[1]) end
-- Two at once, in case one of them has just given up, and two more in case both of these die.
local woken = 0
while ARGV[1] == '1' and woken < 4 do
  local first = redis.call('ZPOPMIN', KEYS[3])[1]
  if not first then break end
  local channel, waiter = string.match(first, '^(%S+) (.*)$')
  if woken >= 2 then waiter = waiter .. ' ' .. ARGV[2] end
  if redis.call('PUBLISH', channel, waiter) > 0 then woken = woken + 1 end
end
return owner and 1 or -1
