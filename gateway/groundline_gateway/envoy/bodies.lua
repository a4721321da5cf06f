-- Refuses what would go on as something else: a JSON body that holds what its message has no field for, or a body or
-- query that says something twice (Envoy's transcoder drops the one and takes the last of the other, silently), and an
-- address that is no text, which no service could decode. Before this text stand MESSAGES (for each message its
-- fields by every spelling, those that are lists, and the messages that they hold; a map has the message of its values
-- instead), ROUTES (the message of each route's body and that of its request, and the fields in its path), MAX_DEPTH and
-- MAX_VALUES.
-- It is strict about JSON, since Envoy is not: what only Envoy could read would pass unseen. Values are Envoy's to
-- check. Every byte is read once, in loops that LuaJIT compiles; plain searches for quotes and backslashes are memchr.
local byte, find, sub, concat = string.byte, string.find, string.sub, table.concat

local MAX_NAME_BYTES = 256
local MAX_VIOLATIONS = 20
local QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
local OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = 123, 125, 91, 93
local LITERALS = {["true"] = true, ["false"] = true, ["null"] = true}
local ANYTHING = {inner = {}}

-- Of the body that is being read; one at a time, since nothing here waits.
local text, backslash, values_read, path, violations

local function malformed(at, description)
  error({position = at, description = description}, 0)
end

local function violation(depth, name, description)
  local parts = {}
  for level = 1, depth - 1 do
    local step = path[level]
    if type(step) == "number" then
      parts[#parts + 1] = "[" .. step .. "]"
    else
      parts[#parts + 1] = (#parts > 0 and "." or "") .. step
    end
  end
  parts[#parts + 1] = (#parts > 0 and "." or "") .. name
  violations[#violations + 1] = {field = concat(parts), description = description}
end

local function skip_space(at)
  local c = byte(text, at)
  while c == 32 or c == 10 or c == 13 or c == 9 do
    at = at + 1
    c = byte(text, at)
  end
  return at, c
end

-- The position of the quote that ends the string whose first character is at.
local function string_end(at)
  local quote = find(text, '"', at, true)
  while quote do
    if backslash < at then
      backslash = find(text, "\\", at, true) or #text + 1
    end
    if backslash > quote then
      return quote
    end
    at = backslash + 2
    if quote < at then
      quote = find(text, '"', at, true)
    end
  end
  malformed(#text + 1, "a string that does not end")
end

local value

local function object(at, message, depth)
  if depth > MAX_DEPTH then
    malformed(at, "more than " .. MAX_DEPTH .. " levels")
  end
  local fields, inner, values, seen = message.fields, message.inner, message.values, {}
  local c
  at, c = skip_space(at + 1)
  if c == CLOSE_OBJECT then
    return at + 1
  end
  while true do
    if c ~= QUOTE then
      malformed(at, "no name in quotes")
    end
    local last = string_end(at + 1)
    if last - at - 1 > MAX_NAME_BYTES then
      malformed(at, "a name of more than " .. MAX_NAME_BYTES .. " bytes")
    end
    local name = sub(text, at + 1, last - 1)
    -- As it is spelled: a field's name written with escapes is none.
    local field = name
    if fields then
      field = fields[name]
      if field == nil then
        violation(depth, name, "is not a field")
      end
    end
    if field then
      if seen[field] then
        violation(depth, name, "is given more than once")
      end
      seen[field] = true
    end
    if #violations >= MAX_VIOLATIONS then
      error(violations, 0)
    end
    path[depth] = name
    at, c = skip_space(last + 1)
    if c ~= COLON then
      malformed(at, "no colon after a name")
    end
    at, c = value(at + 1, field and MESSAGES[inner[field] or values] or ANYTHING, depth)
    if c == CLOSE_OBJECT then
      return at + 1
    elseif c ~= COMMA then
      malformed(at, "neither a comma nor the end of an object")
    end
    at, c = skip_space(at + 1)
  end
end

local function list(at, message, depth)
  if depth > MAX_DEPTH then
    malformed(at, "more than " .. MAX_DEPTH .. " levels")
  end
  local c, index = nil, 0
  at, c = skip_space(at + 1)
  if c == CLOSE_LIST then
    return at + 1
  end
  while true do
    path[depth] = index
    index = index + 1
    at, c = value(at, message, depth)
    if c == CLOSE_LIST then
      return at + 1
    elseif c ~= COMMA then
      malformed(at, "neither a comma nor the end of a list")
    end
    at = at + 1
  end
end

-- Reads the value from at on, whose objects have the fields of message. Returns the position of what follows, and it.
function value(at, message, depth)
  values_read = values_read + 1
  if values_read > MAX_VALUES then
    malformed(at, "more than " .. MAX_VALUES .. " values")
  end
  local c
  at, c = skip_space(at)
  if c == QUOTE then
    at = string_end(at + 1) + 1
  elseif c == OPEN_OBJECT then
    at = object(at, message, depth + 1)
  elseif c == OPEN_LIST then
    at = list(at, message, depth + 1)
  else
    local first = at
    while c and ((c >= 48 and c <= 57) or (c >= 97 and c <= 122) or c == 45 or c == 43 or c == 46 or c == 69) do
      at = at + 1
      c = byte(text, at)
    end
    c = byte(text, first)
    local is_number = c and at > first and (c == 45 or (c >= 48 and c <= 57))
    if not is_number and not LITERALS[sub(text, first, math.min(at - 1, first + 5))] then
      malformed(first, "no JSON value")
    end
  end
  return skip_space(at)
end

-- What is wrong with a body: its violations, or nil and where it stops being JSON. Nothing where nothing is wrong.
local function check(body, message)
  text, backslash, values_read, path, violations = body, 0, 0, {}, {}
  local at, c = skip_space(1)
  if c ~= OPEN_OBJECT then
    return nil, "not a JSON object"
  end
  local ok, wrong = pcall(function()
    local after, rest = skip_space(object(at, message, 1))
    if rest then
      malformed(after, "more after the end of the object")
    end
  end)
  text = nil
  if #violations > 0 then
    return violations
  elseif not ok then
    if type(wrong) ~= "table" then
      error(wrong, 0)
    end
    return nil, wrong.description .. " at byte " .. wrong.position - 1
  end
end

local function refuse(request, wrong, description)
  if wrong then
    request:streamInfo():dynamicMetadata():set("groundline", "violations", wrong)
  end
  request:respond({[":status"] = "400"}, description or "")
end

local function unescaped(address)
  return (address:gsub("%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- The violations of a query that says again what it or the path has said; nil where there are none. What is no field
-- is for the transcoder to refuse.
local function repeated_parameters(address, route)
  local query = address:match("%?([^#]*)")
  local seen, found = {}, {}
  for field in pairs(query and route.path or {}) do
    seen[field] = true
  end
  for parameter in (query or ""):gmatch("[^&]+") do
    local name = unescaped(parameter:match("^[^=]*"))
    local message, field, is_list = MESSAGES[route.request], "", false
    for step in name:gmatch("[^.]+") do
      local known = message and message.fields and message.fields[step]
      if not known then
        field = nil
        break
      end
      field = field .. "." .. known
      is_list = message.lists[known]
      message = MESSAGES[message.inner[known]]
    end
    if field and seen[field] and not is_list and #found < MAX_VIOLATIONS then
      found[#found + 1] = {field = name, description = "is given more than once"}
    end
    seen[field or name] = true
  end
  return found[1] and found
end

-- Whether the bytes that a path stands for are UTF-8, as every text of a message has to be.
local function is_text(address)
  if not find(address, "%%[89a-fA-F]") and not find(address, "[\128-\255]") then
    return true
  end
  local bytes = unescaped(address)
  local at = 1
  while at <= #bytes do
    local first, second = byte(bytes, at, at + 1)
    -- The second byte's range keeps out longer spellings of a character, surrogates and what is beyond U+10FFFF.
    local length, low, high = 1, 128, 191
    if first >= 0xF0 and first <= 0xF4 then
      length, low, high = 4, first == 0xF0 and 0x90 or low, first == 0xF4 and 0x8F or high
    elseif first >= 0xE0 and first <= 0xEF then
      length, low, high = 3, first == 0xE0 and 0xA0 or low, first == 0xED and 0x9F or high
    elseif first >= 0xC2 and first <= 0xDF then
      length = 2
    elseif first >= 128 then
      return false
    end
    if length > 1 and not (second and second >= low and second <= high) then
      return false
    end
    if length > 2 and not find(bytes, "^" .. ("[\128-\191]"):rep(length - 2), at + 2) then
      return false
    end
    at = at + length
  end
  return true
end

function envoy_on_request(request)
  local address = request:headers():get(":path")
  if not is_text(address) then
    return refuse(request, nil, "the address holds bytes that are no UTF-8")
  end
  local route = ROUTES[request:streamInfo():routeName()]
  local twice = repeated_parameters(address, route)
  if twice then
    return refuse(request, twice)
  end
  if route.raw then
    return
  end
  local buffer = request:body()
  local length = buffer and buffer:length() or 0
  if length == 0 then
    return
  end
  if not route.message then
    return refuse(request, nil, "this address takes no body")
  end
  -- Envoy goes on when a script fails.
  local ok, wrong, description = pcall(check, buffer:getBytes(0, length), MESSAGES[route.message])
  if not ok then
    request:logErr("bodies.lua: " .. tostring(wrong))
    request:respond({[":status"] = "500"}, "")
  elseif wrong or description then
    refuse(request, wrong, description)
  end
end
