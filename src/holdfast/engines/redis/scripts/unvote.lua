-- Give back what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 how long to keep the counter (ms), 2 whether to wake waiters ('1' or '0'),
--       3 after how long those behind them should try (ms), 4 channel,
--       5 holder ('': whoever has it, an operator wants so)
-- Gives 1 if the lock was given back, 0 if it is somebody else's, -1 if nobody had it.
local owner, holder = redis.call('GET', KEYS[1]), ARGV[5]
redis.call('ZREM', KEYS[3], ARGV[4] .. ' ' .. holder)
if owner and owner ~= holder and holder ~= '' then return 0 end
if owner then
  redis.call('DEL', KEYS[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
-- Two at once, in case one of them has just given up, and two more in case both of these die.
local woken = 0
while ARGV[2] == '1' and woken < 4 do
  local first = redis.call('ZPOPMIN', KEYS[3])[1]
  if not first then break end
  local channel, waiter = string.match(first, '^(%S+) (.*)$')
  if woken >= 2 then waiter = waiter .. ' ' .. ARGV[3] end
  if redis.call('PUBLISH', channel, waiter) > 0 then woken = woken + 1 end
end
return owner and 1 or -1
