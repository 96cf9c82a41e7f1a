-- The same as `unvote`, for several locks.
-- KEYS  for each: lock, waiting room
-- ARGV  1 after how long those behind the waiters that are woken should try (ms; '': wake nobody),
--       2 channel; then for each: holder, or one of its ballots
-- Gives for each what `one_unvote` does, or an error.
local later, channel = ARGV[1], ARGV[2]
local function unvote(lock, room, holder)
-- include: one_unvote.lua
end
-- include: apart.lua
local results = {}
for i = 1, #KEYS / 2 do results[i] = apart(unvote, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 2]) end
return results
