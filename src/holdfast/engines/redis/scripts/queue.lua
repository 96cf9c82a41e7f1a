-- Shared by the scripts of a single server. KEYS[1] is the lock, KEYS[3] the queue: a sorted set of
-- '<channel> <holder>', by time of arrival.

-- What lies beside the queue makes things quicker or safer, and is mostly not there. While a slot of a
-- cluster moves, a key that is not there may not even be looked for: then it has to do without, since
-- an error would come when half of the work is done.
local function beside(...)
  local reply = redis.pcall(...)
  return type(reply) == 'string' and reply
end

-- Tell a waiter; gives how many connections were told, or -1 if this user may not publish there.
local function tell(channel, message)
  local told = redis.pcall('PUBLISH', channel, message)
  return type(told) == 'number' and told or -1
end

-- An offer to a process that is stopped would be moved on by nobody. So one that waits in another
-- process is the guard, for nearly as long as an offer lasts: it is told how long that is, and looks
-- then. It is the last in the queue, so that it stays for long, and not each offer needs another.
local function have_it_guarded(channel, offer)
  local key = KEYS[3] .. ':guard'
  local guard = beside('GET', key)
  if guard and string.match(guard, '^%S+') ~= channel and redis.call('ZSCORE', KEYS[3], guard) then
    return
  end
  -- All the last ones may be of that process: then one of the first will do.
  for _, ends in ipairs({{'-10', '-1'}, {'0', '9'}}) do
    local some = redis.call('ZRANGE', KEYS[3], ends[1], ends[2])
    for i = #some, 1, -1 do
      local other, holder = string.match(some[i], '^(%S+) (.*)$')
      if other ~= channel and tell(other, holder .. ' ' .. offer) > 0 then
        beside('SET', key, some[i], 'PX', math.floor(offer * 0.9))
        return
      end
    end
  end
end

-- Offer the lock to the first waiter that still listens; gives its holder id, or nil if there is
-- none, or if it is `me`, who waits no more. One that this user may not tell keeps its place, and asks
-- by itself when the last lease would have ended.
local function pass_on(first, offer, keep, me)
  while first and first ~= me do
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    local told = tell(channel, holder)
    if told < 0 then
      redis.call('ZADD', KEYS[3], 0, first)
      redis.call('ZREM', KEYS[3], me or '')
      return
    end
    if told > 0 then
      redis.call('SET', KEYS[1], holder, 'PX', offer)
      next_fence(KEYS[2], 0, keep)
      have_it_guarded(channel, offer)
      return holder
    end
    first = redis.call('ZPOPMIN', KEYS[3])[1]
  end
end
