-- Give back what a holder has on one node of a quorum: the lock, or its place in the waiting room.
-- KEYS  1 lock, 2 waiting room
-- ARGV  1 after how long those behind the waiters that are woken should try (ms; '': wake nobody),
--       a space, and the channel, 2 holder, or one of its ballots: that and earlier ones ('': whoever
--       has it, an operator wants so)
-- Gives what `one_unvote` does.
local lock, room = KEYS[1], KEYS[2]
local waking, holder = ARGV[1], ARGV[2]
-- include: one_unvote.lua
