-- Release the lock of a holder, or break it.
-- KEYS    1 lock, 2 fence counter, 3 holder id
-- ARGV    1 the client's clock (s), 2 the holder's mark ('': any holder), 3 lifetime of the counter (ms);
--         and if an operator breaks the lock: 4 the value of a client of the recipe, which has no mark
-- Result  1 if it was released, 0 if another holder has it, or it is free
local value, mark = redis.call('GET', KEYS[1]), ARGV[2]
if not value then return 0 end
if mark ~= '' and string.sub(value, -#mark) ~= mark and value ~= ARGV[4] then return 0 end
if ARGV[4] and (tonumber(value) or math.huge) < tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
