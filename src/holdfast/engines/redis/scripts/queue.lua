-- Shared by the scripts of a single server. KEYS[1] is the lock, KEYS[3] the queue: a sorted set of
-- '<channel> <holder>', by time of arrival.

-- What lies beside the queue makes things quicker or safer, and is mostly not there. While a slot of a
-- cluster moves, a key that is not there may not even be looked for: then it has to do without, since
-- an error would come when half of the work is done.
local function beside(...)
  local reply = redis.pcall(...)
  return type(reply) == 'string' and reply
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
      if other ~= channel and redis.call('PUBLISH', other, holder .. ' ' .. offer) > 0 then
        beside('SET', key, some[i], 'PX', math.floor(offer * 0.9))
        return
      end
    end
  end
end

-- Whoever is first may *stand ready*, for some ms: it has said just now, before the lock is its own,
-- that it will hold it. Then it is handed over, and nothing is left to confirm. The key says who does:
-- '<ttl> <how long to keep the counter> <how often it had asked before> <fence> <channel> <holder>';
-- without the numbers, whom the lock was offered to. If that one has the lock, it is time for the next
-- one to get ready.
local function see_to_the_next(me, owner, ready, mine)
  local key, first = KEYS[3] .. ':next', redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if first == me then
    if mine then beside('SET', key, mine .. string.format(' %.0f ', clock()) .. me, 'PX', ready) end
    return
  end
  local standing = beside('GET', key)
  if standing and string.sub(standing, -#owner - 1) == ' ' .. owner then
    -- Not in the release: then whoever has got it would hear of that later.
    beside('DEL', key)
    redis.call('PUBLISH', string.match(first, '^(%S+) (.*)$'))
  end
end

-- Hand the lock over to the first waiter, if it stands ready, or offer it to the first that still
-- listens; gives its holder id, or nil if there is none, or if it is `me`, who waits no more.
local function pass_on(first, offer, keep, ready, me)
  local key = KEYS[3] .. ':next'
  local standing = beside('GET', key) or ''
  local ttl, kept, tries, fence, who = string.match(standing, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  while first and first ~= me do
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    -- To be known before it is said: what is published here is heard at other masters of a cluster,
    -- and at replicas, too, but only the listeners here are counted.
    if first == who and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      -- The fence is this server's clock when it got ready: that will do, mostly, and is printed.
      if tonumber(redis.call('GET', KEYS[2]) or fence) < tonumber(fence) then
        redis.call('SET', KEYS[2], fence, 'PX', kept)
      else
        fence = string.format('%.0f', next_fence(KEYS[2], 0, kept))
      end
      redis.call('SET', KEYS[1], holder, 'PX', ttl)
      redis.call('PUBLISH', channel, holder .. ' ' .. fence .. ' ' .. tries)
      return holder
    elseif redis.call('PUBLISH', channel, holder) > 0 then
      redis.call('SET', KEYS[1], holder, 'PX', offer)
      next_fence(KEYS[2], 0, keep)
      beside('SET', key, first, 'PX', ready)
      have_it_guarded(channel, offer)
      return holder
    end
    first = redis.call('ZPOPMIN', KEYS[3])[1]
  end
end
