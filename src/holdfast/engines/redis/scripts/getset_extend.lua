-- Let the caller's lock end no earlier than a given time.
-- KEYS  1 lock, 2 fence counter, 3 holder id
-- ARGV  1 the caller's clock (s), 2 the new value: when it ends (s) and the caller's mark,
--       3 the mark, 4 how long to keep the keys (ms)
-- Gives 1 if it is extended, 0 if it is somebody else's, or nobody's, or its time has passed.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, -#ARGV[3]) ~= ARGV[3] then return 0 end
if tonumber(value) < tonumber(ARGV[1]) then return 0 end
if tonumber(ARGV[2]) > tonumber(value) then redis.call('GETSET', KEYS[1], ARGV[2]) end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[4]) then redis.call('PEXPIRE', key, ARGV[4]) end
end
return 1
