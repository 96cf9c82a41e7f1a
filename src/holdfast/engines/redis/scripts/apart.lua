-- Shared by scripts about several locks. What goes wrong with one of them is nobody else's: it is
-- what that one gives.
local function apart(act, ...)
  local went_well, result = pcall(act, ...)
  if went_well then return result end
  return {err = type(result) == 'table' and result.err or 'ERR ' .. tostring(result)}
end
