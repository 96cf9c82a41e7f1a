-- Give back what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS  1 lock, 2 waiting room
-- ARGV  1 after how long those behind the waiters that are woken should try (ms; '': wake nobody),
--       a space, and the channel, 2 holder, or one of its ballots: that and earlier ones ('': whoever
--       has it, an operator wants so)
-- Gives 1 if the lock was released, 0 if another holder has it, -1 if it was free.
local lock, room = KEYS[1], KEYS[2]
local waking, holder = ARGV[1], ARGV[2]
local owner = redis.call('GET', lock)
-- Mostly nobody waits.
if owner == holder and redis.call('EXISTS', room) == 0 then
  redis.call('DEL', lock)
  return 1
end
-- include: ballot.lua
local later, channel = string.match(waking, '^(%d*) (.*)$')
local me, last = read_ballot(holder)
redis.call('ZREM', room, channel .. ' ' .. me)
if owner and holder ~= '' then
  local whose, number = read_ballot(owner)
  if whose ~= me or (last and (number or 0) > last) then return 0 end
end
if owner then redis.call('DEL', lock) end
-- Two at once, in case one of them has just given up, and two more in case both of these die.
local woken = 0
while later ~= '' and woken < 4 do
  local first = redis.call('ZPOPMIN', room)[1]
  if not first then break end
  local whom, waiter = string.match(first, '^(%S+) (.*)$')
  if woken >= 2 then waiter = waiter .. ' ' .. later end
  if redis.call('PUBLISH', whom, waiter) > 0 then woken = woken + 1 end
end
return owner and 1 or -1
