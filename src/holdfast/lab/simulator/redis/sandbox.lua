-- What surrounds a script: the globals that it may read, and none that it could write.
-- Given what `redis.call` is; gives `compile(source)`, and `run(script, number of keys, words...)`.
local call_out = ...
local sandbox = {
  redis = {call = call_out, pcall = call_out},
  string = string, math = math, table = table,
  ipairs = ipairs, pairs = pairs, next = next, select = select, unpack = unpack,
  tonumber = tonumber, tostring = tostring, type = type, error = error,
  pcall = pcall,
}
setmetatable(sandbox, {
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable ' .. name, 2)
  end,
  __newindex = function(_, name) error('Attempt to modify a readonly table: ' .. name, 2) end,
})

local function compile(source)
  return setfenv(assert(loadstring(source, '=user_script')), sandbox)
end

-- A script that does not come to an end is an error, not a run that hangs.
local function give_up() error('it runs for too long') end

local function run(script, key_count, ...)
  local words = {...}
  rawset(sandbox, 'KEYS', {unpack(words, 1, key_count)})
  rawset(sandbox, 'ARGV', {unpack(words, key_count + 1)})
  debug.sethook(give_up, '', 1000000)
  return script()
end

return {compile = compile, run = run}
