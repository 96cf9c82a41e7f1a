-- The same as `vote`, for several locks.
-- KEYS  for each: lock, fence counter, waiting room
-- ARGV  1 ttl (ms), 2 how long to keep the counters (ms), 3 channel on which to be woken ('': do not
--       wait); then for each: proposed fence, holder, or its ballot
-- Gives for each what `one_vote` does, or an error.
local ttl, keep, channel = ARGV[1], ARGV[2], ARGV[3]
-- include: fence.lua
local function vote(lock, counter, room, proposed, holder)
-- include: one_vote.lua
end
-- include: apart.lua
local results = {}
for i = 1, #KEYS / 3 do
  local k, a = 3 * i, 2 * i + 3
  results[i] = apart(vote, KEYS[k - 2], KEYS[k - 1], KEYS[k], ARGV[a - 1], ARGV[a])
end
return results
