-- The same as `unvote`, for several locks.
-- KEYS  for each: lock, fence counter, waiting room
-- ARGV  1 whether to wake waiters ('1' or '0'), 2 after how long those behind them should try (ms),
--       3 channel; then for each: holder, or one of its ballots
-- Gives for each what `one_unvote` does, or an error.
local wake, later, channel = ARGV[1], ARGV[2], ARGV[3]
local function unvote(lock, room, holder)
-- include: one_unvote.lua
end
-- include: apart.lua
local results = {}
for i = 1, #KEYS / 3 do results[i] = apart(unvote, KEYS[3 * i - 2], KEYS[3 * i], ARGV[i + 3]) end
return results
