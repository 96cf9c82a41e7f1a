-- Shared by scripts that grant. KEYS[2] is the counter.
-- Times go to commands as the texts that they came as: a number would be printed first, for 1 us.
-- The next fence: more than the last one, and at least what is proposed, which must lie within a
-- minute of this server's clock. Nothing proposed (0) means this server's clock: so the counter of a
-- replica that has missed the last grants, or a new one, goes on above what was granted before.
local function next_fence(proposed, keep)
  local time, last = redis.call('TIME'), redis.call('GET', KEYS[2])
  local now, wanted = time[1] * 1000000 + time[2], tonumber(proposed)
  if wanted == 0 then wanted, proposed = now, nil end
  local fence = math.max((last or 0) + 1, now - 60000000, math.min(wanted, now + 60000000))
  -- Over a quorum it mostly is what was proposed, and need not be printed again.
  local text = fence == wanted and proposed or string.format('%.0f', fence)
  redis.call('SET', KEYS[2], text, 'PX', keep)
  return fence
end

-- The lock is the caller's already: it asks again, or confirms an offer. Never shortens it.
local function grant_again(ttl, keep)
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[1], ttl) end
  local fence = redis.call('GET', KEYS[2])
  if not fence then return next_fence(0, keep) end
  redis.call('PEXPIRE', KEYS[2], keep)
  return tonumber(fence)
end
