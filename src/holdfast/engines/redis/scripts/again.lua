-- Shared by scripts that grant; `fence` comes before it. The lock is the caller's already: it asks
-- again, or confirms an offer. Never shortens it.
local function grant_again(lock, counter, ttl, keep)
  if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
  local fence = redis.call('GET', counter)
  if not fence then return next_fence(counter, 0, keep) end
  redis.call('PEXPIRE', counter, keep)
  return tonumber(fence)
end
