-- Give back what a holder has on a single server: the lock, an offer, or its place in the queue.
-- KEYS  1 lock, 2 fence counter, 3 queue
-- ARGV  1 how long to keep the counter (ms), 2 how long an offer lasts (ms),
--       3 channel, 4 holder ('': whoever has it, an operator wants so)
-- Gives 1 if the lock was given back, 0 if it is somebody else's, -1 if nobody had it.
-- The counter outlives the lock's ttl by as long as it is to be kept: nothing to refresh here.
local owner, holder = redis.call('GET', KEYS[1]), ARGV[4]
if owner == holder and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
-- include: fence.lua, queue.lua
if not owner or (owner ~= holder and holder ~= '') then
  local me = ARGV[3] .. ' ' .. holder
  redis.call('ZREM', KEYS[3], me)
  -- A guard that gives up leaves the offer to another.
  if owner and redis.call('GET', KEYS[3] .. ':guard') == me then have_it_guarded('', ARGV[2]) end
  return owner and 0 or -1
end
if not offer_to_first(ARGV[2], ARGV[1]) then redis.call('DEL', KEYS[1]) end
return 1
