-- Release what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS    1 lock, 2 waiting room
-- ARGV    1 '<delay> <channel>': the delay (ms) after which further waiters try ('': wake none) and the
--         channel of the holder, 2 holder (releases all its attempts), or one attempt (releases it and
--         earlier ones), or '' (an operator breaks the lock)
-- Result  1 if the lock was released, 0 if another holder has it, -1 if it is free
local lock, room, waking, holder = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local owner = redis.call('GET', lock)
-- The usual case: there are no waiters.
if owner == holder and redis.call('EXISTS', room) == 0 then
  redis.call('DEL', lock)
  return 1
end
-- include: attempt.lua
local delay, channel = string.match(waking, '^(%d*) (.*)$')
local me, last = read_attempt(holder)
redis.call('ZREM', room, channel .. ' ' .. me)
if owner and holder ~= '' then
  local whose, number = read_attempt(owner)
  if whose ~= me or (last and (number or 0) > last) then return 0 end
end
if owner then redis.call('DEL', lock) end
-- Two at once, in case one of them has just given up, and two more in case both of these die.
local woken = 0
while delay ~= '' and woken < 4 do
  local first = redis.call('ZPOPMIN', room)[1]
  if not first then break end
  local target, waiter = string.match(first, '^(%S+) (.*)$')
  if woken >= 2 then waiter = waiter .. ' ' .. delay end
  local reached = redis.pcall('PUBLISH', target, waiter)
  if type(reached) ~= 'number' then  -- this user may not publish there: the waiter asks by itself
    redis.call('ZADD', room, 0, first)
    break
  end
  if reached > 0 then woken = woken + 1 end
end
return owner and 1 or -1
