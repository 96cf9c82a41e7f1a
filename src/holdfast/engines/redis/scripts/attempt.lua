-- Shared by the scripts of a quorum. The holder of an attempt, and its number: 'holder#n' is the nth
-- after the first, which has the holder's own name and no number.
local function read_attempt(name)
  local holder, number = string.match(name, '^([^#]*)#(%d+)$')
  return holder or name, tonumber(number)
end
