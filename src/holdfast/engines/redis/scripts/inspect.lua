-- Look at locks.
-- KEYS  for each: lock, fence counter, queue
-- Gives for each {holder, time left (ms), fence, number of waiters}, or nil if nobody has it.
local function living(queue)
  local waiters, alive = redis.call('ZRANGE', queue, 0, -1), 0
  for _, waiter in ipairs(waiters) do
    local channel = string.match(waiter, '^(%S+) ')
    if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then alive = alive + 1 end
  end
  return alive
end

local results = {}
for i = 1, #KEYS, 3 do
  local owner = redis.call('GET', KEYS[i])
  results[#results + 1] = owner and {
    owner, redis.call('PTTL', KEYS[i]), redis.call('GET', KEYS[i + 1]) or '0', living(KEYS[i + 2]),
  }
end
return results
