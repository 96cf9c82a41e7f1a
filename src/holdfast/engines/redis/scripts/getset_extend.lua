-- Extend the lock of a holder: it ends no earlier than a given time.
-- KEYS    1 lock, 2 fence counter, 3 holder id
-- ARGV    1 the client's clock (s), 2 the new value: the end (s) and the holder's mark, 3 the mark,
--         4 lifetime of the keys (ms)
-- Result  1 if it was extended, 0 if another holder has it, or it is free, or its time has passed
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, -#ARGV[3]) ~= ARGV[3] then return 0 end
if tonumber(value) < tonumber(ARGV[1]) then return 0 end
-- A server whose memory is full refuses GETSET, but not behind a write of the same script.
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[4]))
end
if tonumber(ARGV[2]) > tonumber(value) then redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') end
return 1
