-- Shared by scripts that grant.

-- The server's clock (us). It is read once in a call and never returns the same value twice, so that
-- the order of waiters is known.
local now
local function clock()
  if now then
    now = now + 1
  else
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  return now
end

-- Store and return the next fence: greater than the last one, and at least the proposed one, which is
-- clamped to within 60 s of the server's clock. 0 proposes that clock, so that a counter that was lost
-- goes on above what was granted before.
local function next_fence(counter, proposed, keep)
  local time, wanted = clock(), tonumber(proposed)
  if wanted == 0 then wanted = time end
  local last = redis.call('GET', counter) or 0
  local fence = math.max(last + 1, time - 60000000, math.min(wanted, time + 60000000))
  redis.call('SET', counter, string.format('%.0f', fence), 'PX', keep)
  return fence
end

-- The holder has the lock already and asks again, or confirms an offer: returns the same fence, and
-- never shortens the lease.
local function grant_again(lock, counter, ttl, keep)
  if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
  local fence = redis.call('GET', counter)
  if not fence then return next_fence(counter, 0, keep) end
  redis.call('PEXPIRE', counter, keep)
  return tonumber(fence)
end
