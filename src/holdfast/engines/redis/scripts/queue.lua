-- Shared by the scripts of a single server. KEYS[1] is the lock, KEYS[3] the queue: a sorted set of
-- '<channel> <holder>', by time of arrival.
-- Offer the lock to the first waiter that still listens; gives its holder id, or nil if there is
-- none, or if it is `me`, who waits no more. The first of another process behind it is told how long
-- the offer lasts, so that it can move it on: a process that is stopped moves nothing.
local function offer_to_first(offer, keep, me)
  while true do
    local first = redis.call('ZPOPMIN', KEYS[3])[1]
    if not first or first == me then return nil end
    local channel, holder = string.match(first, '^(%S+) (.*)$')
    -- In a cluster it counts the listeners of this master alone: whoever waits listens here.
    if redis.call('PUBLISH', channel, holder) > 0 then
      redis.call('SET', KEYS[1], holder, 'PX', offer)
      next_fence(KEYS[2], 0, keep)
      for _, behind in ipairs(redis.call('ZRANGE', KEYS[3], '0', '9')) do
        local other, waiter = string.match(behind, '^(%S+) (.*)$')
        if other ~= channel then
          redis.call('PUBLISH', other, waiter .. ' ' .. offer)
          break
        end
      end
      return holder
    end
  end
end
