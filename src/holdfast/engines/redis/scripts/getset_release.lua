-- Give the caller's lock back; or take it away from whoever has it.
-- KEYS  1 lock, 2 fence counter, 3 holder id
-- ARGV  1 the caller's clock (s), 2 the caller's mark ('': whoever has it, an operator wants so),
--       3 how long to keep the counter (ms)
-- Gives 1 if it was given back, 0 if it is somebody else's or nobody's.
local value, mark = redis.call('GET', KEYS[1]), ARGV[2]
if not value then return 0 end
if mark ~= '' and string.sub(value, -#mark) ~= mark then return 0 end
if mark == '' and (tonumber(value) or math.huge) < tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
