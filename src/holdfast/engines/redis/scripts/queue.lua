-- Shared by the scripts of a single server. KEYS[1] is the lock, KEYS[3] the queue: a sorted set of
-- '<channel> <holder>', by time of arrival.

-- A key that may be missing: one that is optional, or the queue, once its last waiter is popped. While
-- a slot of a cluster moves, looking for a missing key is an error, and an error must not end the
-- script halfway. So it is taken for missing, here and wherever else `pcall` is used.
local function beside(...)
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
  local guard = beside('GET', key)
  if guard and string.match(guard, '^%S+') ~= channel and beside('ZSCORE', KEYS[3], guard) then
    return
  end
  -- All the last ones may be of that process: then one of the first will do.
  for _, ends in ipairs({{'-10', '-1'}, {'0', '9'}}) do
    local some = redis.pcall('ZRANGE', KEYS[3], ends[1], ends[2])
    for i = #some, 1, -1 do
      local other, holder = string.match(some[i], '^(%S+) (.*)$')
      if other ~= channel and notify(other, holder .. ' ' .. offer) > 0 then
        beside('SET', key, some[i], 'PX', math.floor(offer * 0.9))
        return
      end
    end
  end
end

-- Offer the lock to the first waiter that still listens; returns its holder id, or nil if there is
-- none, or if it is `me`, which waits no more. A waiter that this user may not notify keeps its place,
-- and asks by itself when the last lease would have ended.
local function pass_on(first, offer, keep, me)
  while first and first ~= me do
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    local reached = notify(channel, holder)
    if reached < 0 then
      redis.call('ZADD', KEYS[3], 0, first)
      redis.call('ZREM', KEYS[3], me or '')
      return
    end
    if reached > 0 then
      redis.call('SET', KEYS[1], holder, 'PX', offer)
      next_fence(KEYS[2], 0, keep)
      have_it_guarded(channel, offer)
      return holder
    end
    first = redis.pcall('ZPOPMIN', KEYS[3])[1]
  end
end
