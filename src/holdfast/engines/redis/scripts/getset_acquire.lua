-- Acquire the lock by SETNX; or, if there is one and its time has passed, by GETSET.
-- KEYS    1 lock, 2 fence counter, 3 holder id
-- ARGV    1 the client's clock (s), 2 the value to set: the end (s) and the holder's mark, 3 the mark,
--         4 lifetime of the keys (ms), 5 holder id
-- Result  the fence; or, if another holder has the lock, its value
-- include: fence.lua
local now, value, keep = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])
local fence = nil
if redis.call('SETNX', KEYS[1], value) == 0 then
  local taken = redis.call('GET', KEYS[1])
  local ends = tonumber(taken)
  if string.sub(taken, -#ARGV[3]) == ARGV[3] then
    if ends > tonumber(value) then value = taken end
    fence = redis.call('GET', KEYS[2])
  elseif not (ends and ends < now) then
    return taken
  end
  redis.call('GETSET', KEYS[1], value)  -- returns `taken`: a script is atomic
end
redis.call('PEXPIRE', KEYS[1], keep)
redis.call('SET', KEYS[3], ARGV[5], 'PX', keep)
return tonumber(fence or next_fence(KEYS[2], 0, keep))
