-- Acquire a share of the lock of a single server, or join its queue.
-- KEYS    1 lock, 2 fence counter, 3 queue; in a cluster, of one that is shared: members, kinds
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 lifetime of an offer (ms), 4 channel of the
--         waiter ('': do not queue), 5 how many may share it (0: any number), 6 holder
-- Result  the fence; or, if there is no room, {time until there may be (ms), the value of the lock}
-- include: fence.lua, members.lua, queue.lua
local ttl, keep, offer, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local shares, holder, time = tonumber(ARGV[5]), ARGV[6], clock_ms()
local me = channel .. ' ' .. holder
local owner = redis.call('GET', KEYS[1])
if owner == holder then  -- an older client has offered it to this one alone
  redis.call('ZREM', KEYS[3] .. ':kinds', holder)
  return grant_again(KEYS[1], KEYS[2], ARGV[1], keep)
end

local function granted()
  redis.call('ZREM', KEYS[3], me)
  redis.call('ZREM', KEYS[3] .. ':kinds', holder)
  join(KEYS[1], holder, ttl, time)
  offer_shares(shares, offer)
  local fence = redis.call('GET', KEYS[2])
  if not fence then return next_fence(KEYS[2], 0, keep) end
  if redis.call('PTTL', KEYS[2]) < tonumber(keep) then redis.call('PEXPIRE', KEYS[2], keep) end
  return tonumber(fence)
end

owner = owner or pass_on(offer, keep, me)
if not owner then
  begin_sharing(shares, keep, ttl)
  return granted()
end
local present = shares_of(owner)
if present then
  forget_ended(time)
  if end_of(KEYS[1], holder, time) then return granted() end
  offer_shares(present, offer, me)
  local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if present == shares and (not first or first == me) and has_room(shares) then return granted() end
end
local left = redis.call('PTTL', KEYS[1])
if present == shares then left = math.max(outer_end(KEYS[1], 0) - time, 1) end
if channel ~= '' then
  redis.call('ZADD', KEYS[3], 'NX', clock(), me)
  redis.call('ZADD', KEYS[3] .. ':kinds', shares, holder)
  local lasting = math.max(redis.call('PTTL', KEYS[1]), 0) + keep
  redis.call('PEXPIRE', KEYS[3], lasting)
  redis.call('PEXPIRE', KEYS[3] .. ':kinds', lasting)
end
return {left, owner}
