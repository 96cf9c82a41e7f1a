-- include: fence.lua
-- Take the lock by SETNX; or, if it is taken and its time has passed, by GETSET.
-- KEYS  1 lock, 2 fence counter, 3 holder id
-- ARGV  1 the caller's clock (s), 2 the lock's value if granted: when it ends (s) and the caller's
--       mark, 3 the mark, 4 how long to keep the keys (ms), 5 holder id
-- Gives the fence; or, if it is somebody else's, the lock's value.
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
  redis.call('GETSET', KEYS[1], value)  -- gives what we have seen: nobody comes between here
end
redis.call('PEXPIRE', KEYS[1], keep)
redis.call('SET', KEYS[3], ARGV[5], 'PX', keep)
return tonumber(fence or next_fence(KEYS[2], 0, keep))
