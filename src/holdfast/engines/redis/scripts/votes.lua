-- The same as `vote`, for several locks.
-- KEYS  for each: lock, fence counter, and, if they are to be waited for, waiting room
-- ARGV  1 ttl (ms), 2 how long to keep the counters (ms), then, if there are waiting rooms, the
--       channel on which to be woken; then for each: proposed fence, holder, or its ballot
-- Gives for each what `one_vote` does, or an error.
local ttl, keep, channel = ARGV[1], ARGV[2], ARGV[3]
-- include: fence.lua
local function vote(lock, counter, room, proposed, holder)
  local taken, last = redis.call('SET', lock, holder, 'NX', 'PX', ttl), nil
-- include: one_vote.lua
end
-- include: apart.lua
local waits = #ARGV % 2 == 1 -- two words each, so an odd count means that there is a channel
local keys, first = waits and 3 or 2, waits and 4 or 3
local results = {}
for i = 0, #KEYS / keys - 1 do
  local k, a = keys * i + 1, 2 * i + first
  results[i + 1] = apart(vote, KEYS[k], KEYS[k + 1], waits and KEYS[k + 2], ARGV[a], ARGV[a + 1])
end
return results
