-- Give back what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 whether to wake waiters ('1' or '0'), 2 after how long those behind them should try (ms),
--       3 channel, 4 holder, or one of its ballots: that and earlier ones ('': whoever has it, an
--       operator wants so)
-- Gives what `one_unvote` does.
local lock, room = KEYS[1], KEYS[3]
local wake, later, channel, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- include: one_unvote.lua
