-- Shared by the scripts of a quorum; needs `members`. The holder of an attempt, and its number: 'holder#n' is the nth
-- after the first, which has the holder's own name and no number.
local function read_attempt(name)
  local holder, number = string.match(name, '^([^#]*)#(%d+)$')
  return holder or name, tonumber(number)
end

-- What the lock holds while readers share it. Over a quorum, no others do.
local READERS = 'shared 0'

-- The lock is free: let readers share it.
local function open_to_readers(lock, ttl)
  redis.call('DEL', members_of(lock))
  redis.call('SET', lock, READERS, 'PX', ttl)
end

-- The key of the writer that is to have the lock when the readers are done, as '<channel> <holder>', or
-- ' <holder>' if it polls. Meanwhile no further reader gets in, or readers that keep coming would keep
-- it out.
local function writer_of(lock)
  return '{' .. lock .. '}:queue:writer'
end

-- That writer, if there is one and it still listens. One that polls has not asked for long when its
-- key expires.
local function waiting_writer(lock)
  local waiter = redis.call('GET', writer_of(lock))
  local channel = waiter and string.match(waiter, '^%S+')
  if not channel then return waiter or nil end
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
  return (listening[2] or 0) > 0 and waiter or nil
end

-- This holder waits no more; returns whether it was that writer.
local function forget_writer(lock, holder)
  local waiter = redis.call('GET', writer_of(lock))
  local was_next = waiter and string.match(waiter, ' (.*)$') == holder
  if was_next then redis.call('DEL', writer_of(lock)) end
  return was_next
end
