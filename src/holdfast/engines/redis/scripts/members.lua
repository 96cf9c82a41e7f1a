-- Shared by all scripts, of a single server and of a quorum. While several share a lock, its key holds 'shared <n>' in
-- place of a holder, where n is how many may share it (0: any number), and expires with the last of
-- them. '{lock}:members' has their holder ids, by the end of their leases (ms, the server's clock).

-- How many may share the lock with this value; nil if it has one holder.
local function shares_of(owner)
  return owner and tonumber(string.match(owner, '^shared (%d+)$'))
end

local function members_of(lock)
  return '{' .. lock .. '}:members'
end

local function clock_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The end of a member's lease; nil if there is no such member, or its lease has ended.
local function end_of(lock, holder, now)
  local ends = tonumber(redis.call('ZSCORE', members_of(lock), holder) or nil)
  return ends and ends > now and ends or nil
end

-- The first or the last end; 0 if there are no members.
local function outer_end(lock, place)
  local member = redis.call('ZRANGE', members_of(lock), place, place)[1]
  return member and tonumber(redis.call('ZSCORE', members_of(lock), member)) or 0
end

-- Let the lock expire with its last member; returns that end.
local function expire_with_last(lock, now)
  local last = outer_end(lock, -1)
  if last > now then
    redis.call('PEXPIRE', lock, last - now)
    redis.call('PEXPIRE', members_of(lock), last - now)
  end
  return last
end

-- Let a holder in, or let its lease last longer, never shorter. A server whose memory is full refuses
-- ZADD, but not behind a write of the same script.
local function join(lock, holder, ttl, now)
  local ends = math.max(end_of(lock, holder, now) or 0, now + ttl)
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl))
  redis.call('ZADD', members_of(lock), string.format('%.0f', ends), holder)
  expire_with_last(lock, now)
end

-- Remove the members whose leases have ended.
local function forget_ended(now)
  local members = members_of(KEYS[1])
  local first = redis.call('ZRANGE', members, 0, 0)[1]
  while first and tonumber(redis.call('ZSCORE', members, first)) <= now do
    redis.call('ZREM', members, first)
    first = redis.call('ZRANGE', members, 0, 0)[1]
  end
end
