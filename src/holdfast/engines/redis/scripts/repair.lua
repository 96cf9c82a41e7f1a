-- Restore a lease that this node has lost, unless there is another one.
-- KEYS    1 lock, 2 fence counter
-- ARGV    1 ttl (ms), 2 lifetime of the counter (ms), 3 fence, 4 holder
-- Result  1 if the holder has the lock now, else 0
if not redis.call('SET', KEYS[1], ARGV[4], 'NX', 'PX', ARGV[1]) then
  return redis.call('GET', KEYS[1]) == ARGV[4] and 1 or 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
end
return 1
