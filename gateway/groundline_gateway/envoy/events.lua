-- Gives each server-sent event the name of what it holds and its id. The transcoder writes messages as
-- `data: {...}` and an empty line; the first object in a message says what it is, and event_id is its last field. A
-- message that holds no object is a service's sign of life, and becomes a comment.
local find, match, sub, concat = string.find, string.match, string.sub, table.concat

local function event(text)
  -- Before the first object stand numbers, whose text holds no brace.
  local name = match(text, '^data: {[^{]-"(%w+)":{')
  if not name then
    return ":\n\n"
  end
  local id = match(text, '"eventId":"([%w-]+)"}$')
  return "event: " .. name .. "\n" .. (id and "id: " .. id .. "\n" or "") .. text .. "\n\n"
end

function envoy_on_response(response)
  -- A failure before the first event is JSON.
  if response:headers():get("content-type") ~= "text/event-stream" then
    return
  end
  local rest = ""
  for chunk in response:bodyChunks() do
    local text = rest .. chunk:getBytes(0, chunk:length())
    local events, at = {}, 1
    -- Within JSON a line's end is escaped.
    local last = find(text, "\n\n", at, true)
    while last do
      events[#events + 1] = event(sub(text, at, last - 1))
      at = last + 2
      last = find(text, "\n\n", at, true)
    end
    rest = sub(text, at)
    chunk:setBytes(concat(events))
  end
end
