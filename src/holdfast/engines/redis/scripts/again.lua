-- Shared by scripts that grant; needs `fence`. The holder has the lock already and asks again, or
-- confirms an offer: returns the same fence, and never shortens the lease.
local function grant_again(lock, counter, ttl, keep)
  if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
  local fence = redis.call('GET', counter)
  if not fence then return next_fence(counter, 0, keep) end
  redis.call('PEXPIRE', counter, keep)
  return tonumber(fence)
end
