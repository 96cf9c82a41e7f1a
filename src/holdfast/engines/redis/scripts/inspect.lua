-- Look at locks.
-- KEYS    for each lock: lock, fence counter, queue
-- ARGV    none
-- Result  for each lock {holder, time left (ms), fence, number of living waiters}, and if it is shared,
--         for each member: holder, time left (ms); nil if it is free; an error if its key holds
--         something else than a lock
-- include: members.lua

-- A foreign key that only looks like one of ours must not fail the others.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
    error(reply.err)
  end
  return reply
end

local function living(queue)
  local waiters, alive = read('ZRANGE', queue, 0, -1), 0
  for _, waiter in ipairs(waiters) do
    local channel = string.match(waiter, '^(%S+) ')
    if channel and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then alive = alive + 1 end
  end
  return alive
end

local results = {}
for i = 1, #KEYS, 3 do
  local owner = read('GET', KEYS[i])
  if type(owner) == 'string' then
    local fence = read('GET', KEYS[i + 1])
    if type(fence) ~= 'string' then fence = '0' end
    local found = {owner, redis.call('PTTL', KEYS[i]), fence, living(KEYS[i + 2])}
    if shares_of(owner) then
      local now = clock_ms()
      for _, member in ipairs(read('ZRANGE', members_of(KEYS[i]), 0, -1)) do
        local ends = end_of(KEYS[i], member, now)
        if ends then
          found[#found + 1] = member
          found[#found + 1] = ends - now
        end
      end
    end
    owner = found
  end
  results[#results + 1] = owner
end
return results
