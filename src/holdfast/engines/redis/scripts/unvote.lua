-- Release what a holder has on one node of a quorum: the lock, or its place in the queue.
-- KEYS    1 lock, 2 queue
-- ARGV    1 '<delay> <channel>': the delay (ms) after which further waiters try ('': wake none) and the
--         channel of the holder ('': it goes on waiting, and keeps its place), 2 holder (releases all its
--         attempts), or one attempt (releases it and earlier ones), or '' (an operator breaks the lock)
-- Result  1 if the lock was released, 0 if another holder has it, -1 if it is free
local lock, queue, waking, holder = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local owner = redis.call('GET', lock)
-- The usual case: there are no waiters.
if owner == holder and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lock)
  return 1
end
-- include: members.lua, attempt.lua
local delay, channel = string.match(waking, '^(%d*) (.*)$')
local me, last = read_attempt(holder)
local lets_in = false
if channel ~= '' then
  redis.call('ZREM', queue, channel .. ' ' .. me)
  redis.call('ZREM', queue .. ':kinds', me)
  -- A writer that gives up lets in the readers that wait behind it.
  lets_in = forget_writer(lock, me)
end

-- Whether this attempt is to be released.
local function is_mine(attempt)
  local whose, number = read_attempt(attempt)
  return whose == me and not (last and (number or 0) > last)
end

local result, is_free = owner and 1 or -1, true
if owner == READERS and holder ~= '' then
  local now, released = clock_ms(), 0
  forget_ended(now)
  local before = outer_end(lock, -1)
  for _, member in ipairs(redis.call('ZRANGE', members_of(lock), 0, -1)) do
    if is_mine(member) then released = released + redis.call('ZREM', members_of(lock), member) end
  end
  local ends = expire_with_last(lock, now)
  is_free = ends == 0
  if released == 0 then result = 0 end
  -- The writer may have to look earlier than it was told. It cannot tell attempts from leases.
  local writer = (delay == '' or not is_free) and ends < before and waiting_writer(lock)
  local target, waiter = string.match(writer or '', '^(%S+) (.*)$')
  if target then redis.pcall('PUBLISH', target, waiter) end
elseif owner and holder ~= '' and not is_mine(owner) then
  return 0
end
if owner and is_free then redis.call('DEL', lock, members_of(lock)) end
if owner == READERS and is_free and delay ~= '' then  -- a writer that is stopped does not keep others out
  local listens = string.match(redis.call('GET', writer_of(lock)) or '', '^%S')
  if listens and redis.call('PTTL', writer_of(lock)) > tonumber(delay) then
    redis.call('PEXPIRE', writer_of(lock), delay)
  end
end
local frees_nothing = channel == '' and not owner
if frees_nothing or not (is_free or lets_in) then return result end
-- Two at once, in case one of them has just given up, and two more in case both of these die. Readers
-- can all have the lock together, so they do not count.
local woken = 0
while delay ~= '' and woken < 4 do
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if not first then break end
  local target, waiter = string.match(first, '^(%S+) (.*)$')
  local reached = redis.pcall('PUBLISH', target, woken < 2 and waiter or waiter .. ' ' .. delay)
  if type(reached) ~= 'number' then break end  -- this user may not: the waiter asks by itself
  redis.call('ZREM', queue, first)
  local reads = redis.call('ZREM', queue .. ':kinds', waiter) == 1
  if reached > 0 and not reads then woken = woken + 1 end
end
return result
