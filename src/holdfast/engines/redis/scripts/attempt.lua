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

-- The key of the writer that is to have the lock when the readers are done, as '<channel> <holder>'.
-- Meanwhile no further reader gets in, or readers that keep coming would keep it out.
local function writer_of(lock)
  return '{' .. lock .. '}:queue:writer'
end

-- That writer, if there is one and it still listens.
local function waiting_writer(lock)
  local waiter = redis.call('GET', writer_of(lock))
  local listening = waiter and redis.pcall('PUBSUB', 'NUMSUB', string.match(waiter, '^%S+'))
  return listening and (listening[2] or 0) > 0 and waiter or nil
end
