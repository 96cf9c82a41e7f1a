-- Shared by `vote` and `votes`: about one lock, which was `taken` just now, or is held; `last` is its
-- last fence, if that is known. Gives the fence; or, if it is somebody else's, {time left (ms), holder}.
if not taken then
  local owner = redis.call('GET', lock)
-- include: again.lua, ballot.lua
  if owner == holder then return grant_again(lock, counter, ttl, keep) end
  local me, number = read_ballot(holder)
  local whose, latest = read_ballot(owner)
  if whose ~= me or (latest or 0) > (number or 0) then
    local left = redis.call('PTTL', lock)
    if room then
      redis.call('ZADD', room, 'NX', clock(), channel .. ' ' .. me)
      redis.call('PEXPIRE', room, math.max(left, 0) + keep)
    end
    return {left, owner}
  end
  -- It was granted to an earlier try of the same holder, which has come to nothing.
  redis.call('SET', lock, holder, 'PX', ttl)
end
if room then
  redis.call('ZREM', room, channel .. ' ' .. string.match(holder, '^[^#]*'))
end
return next_fence(counter, proposed, keep, last)
