-- Shared by the scripts of a single server; needs `fence` and `members`. KEYS[1] is the lock, KEYS[3]
-- the queue: a sorted set of '<channel> <holder>', by time of arrival. Beside it, '<queue>:kinds' has
-- the holders that would share the lock, and with how many.

-- A key that may be missing: one that is optional, or the queue, once its last waiter is popped. While
-- a slot of a cluster moves, looking for a missing key is an error, and an error must not end the
-- script halfway. So it is taken for missing, here and wherever else `pcall` is used.
local function if_present(...)
  local reply = redis.pcall(...)
  return type(reply) == 'string' and reply
end

-- Notify a waiter; returns how many connections were reached, or -1 if this user may not publish there.
local function notify(channel, message)
  local reached = redis.pcall('PUBLISH', channel, message)
  return type(reached) == 'number' and reached or -1
end

-- A process that is stopped neither takes its offer nor moves it on. So a waiter of another process is
-- the guard, for nearly as long as an offer lasts: it is notified how long that is, and asks then. It is
-- the last in the queue, so that it stays for long, and not each offer needs another.
local function have_it_guarded(channel, offer)
  local key = KEYS[3] .. ':guard'
  local guard = if_present('GET', key)
  if guard and string.match(guard, '^%S+') ~= channel and if_present('ZSCORE', KEYS[3], guard) then
    return
  end
  -- All the last ones may be of that process: then one of the first will do.
  for _, ends in ipairs({{'-10', '-1'}, {'0', '9'}}) do
    local some = redis.pcall('ZRANGE', KEYS[3], ends[1], ends[2])
    for i = #some, 1, -1 do
      local other, holder = string.match(some[i], '^(%S+) (.*)$')
      if other ~= channel and notify(other, holder .. ' ' .. offer) > 0 then
        if_present('SET', key, some[i], 'PX', math.floor(offer * 0.9))
        return
      end
    end
  end
end

-- How many may hold the lock together with this waiter; nil if none may.
local function kind_of(waiter)
  return tonumber(if_present('ZSCORE', KEYS[3] .. ':kinds', string.match(waiter, ' (.*)$')) or nil)
end

-- The lock is free: from now on, this many may share it.
local function begin_sharing(shares, keep, ttl)
  redis.pcall('DEL', members_of(KEYS[1]))
  redis.call('SET', KEYS[1], 'shared ' .. shares, 'PX', ttl)
  next_fence(KEYS[2], 0, keep)
end

local function has_room(shares)
  return shares == 0 or not redis.call('ZRANGE', members_of(KEYS[1]), shares - 1, shares - 1)[1]
end

-- Offer what is free of a shared lock to the first waiters: those before `me` that want as many
-- shares. One that wants another number, but does not listen any more, is removed.
local function offer_shares(shares, offer, me)
  local first = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
  while first and first ~= me and has_room(shares) do
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    local fits = kind_of(first) == shares
    local reached = fits and notify(channel, holder) or redis.call('PUBSUB', 'NUMSUB', channel)[2]
    if reached < 0 or (reached > 0 and not fits) then return end
    redis.call('ZREM', KEYS[3], first)
    if_present('ZREM', KEYS[3] .. ':kinds', holder)
    if reached > 0 then
      join(KEYS[1], holder, tonumber(offer), clock_ms())
      have_it_guarded(channel, offer)
    end
    first = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
  end
end

-- Offer the lock to the first waiter that still listens, and to those behind it that may share it;
-- returns what its key holds then, or nil if there is none, or if it is `me`, which waits no more. A
-- waiter that this user may not notify keeps its place, and asks by itself when the last lease would
-- have ended.
local function pass_on(offer, keep, me)
  local first = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
  while first and first ~= me do
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    local shares, reached = kind_of(first), notify(channel, holder)
    if reached < 0 then return end
    redis.call('ZREM', KEYS[3], first)
    if shares then if_present('ZREM', KEYS[3] .. ':kinds', holder) end
    if reached > 0 and shares then
      begin_sharing(shares, keep, offer)
      join(KEYS[1], holder, tonumber(offer), clock_ms())
      have_it_guarded(channel, offer)
      offer_shares(shares, offer, me)
      return 'shared ' .. shares
    end
    if reached > 0 then
      redis.call('SET', KEYS[1], holder, 'PX', offer)
      next_fence(KEYS[2], 0, keep)
      have_it_guarded(channel, offer)
      return holder
    end
    first = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
  end
end
