-- Release what a holder has on a single server: the lock, an offer, or its place in the queue.
-- KEYS    1 lock, 2 fence counter, 3 queue; in a cluster, of one that is shared: members, kinds
-- ARGV    1 lifetime of the counter (ms), 2 lifetime of an offer (ms), 3 channel, 4 holder ('': an
--         operator breaks the lock)
-- Result  1 if the lock, or a share of it, was released, 0 if another holder has it, -1 if it is free
-- The counter outlives the ttl of the lock by its lifetime, so it is not refreshed here.
local owner, holder = redis.call('GET', KEYS[1]), ARGV[4]
-- The usual case: there are no waiters.
if owner == holder and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
-- include: fence.lua, members.lua, queue.lua
local shares = shares_of(owner)
local now = shares and clock_ms()
if shares and end_of(KEYS[1], holder, now) then
  redis.call('ZREM', members_of(KEYS[1]), holder)
  forget_ended(now)
  if outer_end(KEYS[1], 0) > 0 then
    local before = redis.call('PTTL', KEYS[1])
    offer_shares(shares, ARGV[2])
    -- The first waiter may have to look earlier than it was told.
    if expire_with_last(KEYS[1], now) - now < before then
      local waiter = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
      if waiter then notify(string.match(waiter, '^(%S+) (.*)$')) end
    end
    return 1
  end
elseif not owner or (owner ~= holder and holder ~= '') then
  local me = ARGV[3] .. ' ' .. holder
  redis.call('ZREM', KEYS[3], me)
  if_present('ZREM', KEYS[3] .. ':kinds', holder)
  -- A guard that gives up leaves the offer to another.
  if owner and if_present('GET', KEYS[3] .. ':guard') == me then have_it_guarded('', ARGV[2]) end
  if shares then offer_shares(shares, ARGV[2]) end
  return owner and 0 or -1
end
if not pass_on(ARGV[2], ARGV[1]) then redis.call('DEL', KEYS[1]) end
return 1
