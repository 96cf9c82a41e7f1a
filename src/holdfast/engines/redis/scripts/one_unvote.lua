-- Shared by `unvote` and `unvotes`: about one lock. Gives 1 if the lock was given back, 0 if it is
-- somebody else's, -1 if nobody had it.
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
