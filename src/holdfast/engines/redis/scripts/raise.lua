-- Raise the counter to a fence that other nodes have granted, for the holder of the lock.
-- KEYS    1 lock, 2 fence counter
-- ARGV    1 fence, 2 lifetime of the counter (ms), 3 holder
-- Result  1 if the holder has the lock, or a share, and the counter equals the fence now, else 0
-- include: members.lua, attempt.lua
local owner, holder = redis.call('GET', KEYS[1]), ARGV[3]
if owner ~= holder and not (owner == READERS and end_of(KEYS[1], holder, clock_ms())) then return 0 end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if last > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'KEEPTTL')
if redis.call('PTTL', KEYS[2]) < 0 then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
return 1
