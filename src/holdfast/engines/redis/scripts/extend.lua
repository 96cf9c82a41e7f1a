-- Extend leases: each ends no earlier than its ttl from now.
-- KEYS    for each lock: lock, fence counter; in a cluster, of one that is shared: members
-- ARGV    1 how long the counters outlive the ttl (ms); then for each lock: ttl (ms), holder
-- Result  for each lock 1 if it was extended, 0 if another holder has it, -1 if there is no such lock, or
--         no such share of it
-- include: members.lua
local keep, results = tonumber(ARGV[1]), {}
for i = 1, #ARGV - 1, 2 do
  local ttl, owner = tonumber(ARGV[i + 1]), redis.call('GET', KEYS[i])
  if owner == ARGV[i + 2] then
    local left = redis.call('PTTL', KEYS[i])
    if left < ttl then redis.call('PEXPIRE', KEYS[i], ttl) end
    redis.call('PEXPIRE', KEYS[i + 1], math.max(left, ttl) + keep)
    results[#results + 1] = 1
  elseif shares_of(owner) then
    local now = clock_ms()
    local held = end_of(KEYS[i], ARGV[i + 2], now)
    if held then
      join(KEYS[i], ARGV[i + 2], ttl, now)
      redis.call('PEXPIRE', KEYS[i + 1], redis.call('PTTL', KEYS[i]) + keep)
    end
    results[#results + 1] = held and 1 or -1
  else
    results[#results + 1] = owner and 0 or -1
  end
end
return results
