-- Shared by the scripts of a quorum. Whose ballot it is, and which of the holder's: 'holder#n' is
-- the nth after the first, which has the holder's own name, and no number.
local function read_ballot(name)
  local holder, number = string.match(name, '^([^#]*)#(%d+)$')
  return holder or name, tonumber(number)
end
