-- Shared by scripts that grant. This server's clock, in us: asked once in a call, and never twice the
-- same, so that whoever came first is known to have come first.
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

-- Times go to commands as the texts that they came as: a number would be printed first, for 1 us.
-- The next fence: more than the last one, and at least what is proposed, which must lie within a
-- minute of this server's clock. Nothing proposed (0) means this server's clock: so the counter of a
-- replica that has missed the last grants, or a new one, goes on above what was granted before.
-- Who knows the last one says it; false: there is none.
local function next_fence(counter, proposed, keep, last)
  local time, wanted = clock(), tonumber(proposed)
  if last == nil then last = redis.call('GET', counter) end
  if wanted == 0 then wanted, proposed = time, nil end
  local fence = math.max((last or 0) + 1, time - 60000000, math.min(wanted, time + 60000000))
  -- Over a quorum it mostly is what was proposed, and need not be printed again.
  local text = fence == wanted and proposed or string.format('%.0f', fence)
  redis.call('SET', counter, text, 'PX', keep)
  return fence
end
