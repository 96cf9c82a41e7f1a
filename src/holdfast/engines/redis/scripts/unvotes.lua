-- The same as `unvote`, for several locks.
-- KEYS  for each: lock, waiting room
-- ARGV  1 the same; then for each: holder, or one of its ballots
-- Gives for each what `one_unvote` does, or an error.
local waking = ARGV[1]
local function unvote(lock, room, holder)
-- include: one_unvote.lua
end
-- include: apart.lua
local results = {}
for i = 1, #KEYS / 2 do results[i] = apart(unvote, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1]) end
return results
