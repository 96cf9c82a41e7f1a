-- Take the lock of one node of a quorum, or have a place in its waiting room.
-- KEYS  1 lock, 2 fence counter, 3 waiting room
-- ARGV  1 ttl (ms), 2 how long to keep the counter (ms),
--       3 channel on which to be woken ('': do not wait), 4 proposed fence, 5 holder, or its ballot
-- Gives what `one_vote` does.
local lock, counter, room = KEYS[1], KEYS[2], KEYS[3]
local ttl, keep, channel, proposed, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- include: fence.lua, one_vote.lua
