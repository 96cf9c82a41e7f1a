-- Let leases end no earlier than their ttl from now.
-- KEYS  for each: lock, fence counter
-- ARGV  1 how long to keep the counters beyond the ttl (ms); then for each: ttl (ms), holder
-- Gives for each 1 if it is extended, 0 if it is somebody else's, -1 if there is no such lock.
local keep, results = tonumber(ARGV[1]), {}
for i = 1, #KEYS, 2 do
  local ttl, owner = tonumber(ARGV[i + 1]), redis.call('GET', KEYS[i])
  if owner == ARGV[i + 2] then
    local left = redis.call('PTTL', KEYS[i])
    if left < ttl then redis.call('PEXPIRE', KEYS[i], ttl) end
    redis.call('PEXPIRE', KEYS[i + 1], math.max(left, ttl) + keep)
    results[#results + 1] = 1
  else
    results[#results + 1] = owner and 0 or -1
  end
end
return results
