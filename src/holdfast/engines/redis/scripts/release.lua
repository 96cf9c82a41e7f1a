-- include: fence.lua, queue.lua
-- Give back what a holder has on a single server: the lock, an offer, or its place in the queue.
-- KEYS  1 lock, 2 fence counter, 3 queue
-- ARGV  1 how long to keep the counter (ms), 2 how long an offer lasts (ms),
--       3 channel, 4 holder ('': whoever has it, an operator wants so)
-- Gives 1 if the lock was given back, 0 if it is somebody else's, -1 if nobody had it.
local owner, holder = redis.call('GET', KEYS[1]), ARGV[4]
if not owner or (owner ~= holder and holder ~= '') then
  redis.call('ZREM', KEYS[3], ARGV[3] .. ' ' .. holder)
  return owner and 0 or -1
end
if not offer_to_first(ARGV[2], ARGV[1]) then
  redis.call('DEL', KEYS[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return 1
