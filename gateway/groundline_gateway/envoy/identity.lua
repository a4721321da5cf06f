-- Who calls, and may they? The filter context holds, for the hash of each key, its client, principals, scopes and
-- the second at which it expires. A header that comes twice reads as one value with a comma, which no key has.
-- A token instead of a key has been checked by Envoy, which leaves its claims as metadata.
-- Before this text stand sha256.lua, CLAIMS (for each issuer which claims say what), SCOPES (for each route the scopes of
-- which a caller needs one; a route with none is open to everyone), MAX_UNDER_WAY (requests of a client at once), WEIGHTS
-- (how many a request of a route counts as, where it is not one, for the memory that it may take), KINDS (of which kind a route's requests are, where those of all clients are bounded), MAX_OF_KIND (the
-- sum of each kind) and MAX_WRONG_KEYS (of an address in a minute).
-- Each worker thread has this script, and counts, for itself.

-- For each client, the coroutines of its requests with their routes, and when last counted the sums of their weights, of all
-- and by kind; and the latter of all clients. Envoy keeps a request's coroutine until the request is over, however it ends;
-- then it is garbage, and gone from the table.
local clients = {}
local taken = {}
local new_clients = 0
local MAX_NEW_CLIENTS = 1000
-- Counting takes longer than to refuse: how long a client that had no room is refused without it.
local COUNTED_MILLISECONDS = 10

-- Each client has one of these lanes, always the same: a lane costs a connection to each retriever.
local LANES = 64
-- How long a lane keeps its name, and with it its connection. Once a connection is 270 s old, a retriever may take nothing more
-- on it, and as Envoy opens no second one for the same name, searches would wait for all that are under way on it. Lanes
-- change their names one after the other.
local LANE_MILLISECONDS = 200000

local function lane_of(client)
  return tonumber(sha256(client):sub(1, 8), 16) % LANES
end

local function name_of(lane, now)
  return ("%d.%d"):format(lane, math.floor(now / LANE_MILLISECONDS + lane / LANES))
end

local function weight_of(route)
  return WEIGHTS[route] or 1
end

local function add(requests, route)
  local weight, kind = weight_of(route), KINDS[route]
  requests.weight = requests.weight + weight
  if kind then
    taken[kind] = (taken[kind] or 0) + weight
    requests.taken[kind] = (requests.taken[kind] or 0) + weight
  end
end

local function count_again()
  collectgarbage()
  taken, new_clients = {}, 0
  for client, requests in pairs(clients) do
    requests.weight, requests.taken = 0, {}
    for _, route in pairs(requests.started) do
      add(requests, route)
    end
    if requests.weight == 0 then
      clients[client] = nil
    end
  end
end

-- However heavy, one of a client may always begin. Of each kind it has at most as much as it leaves to the others, so that
-- those who come find something left.
local function has_room(requests, route)
  if requests == nil or requests.weight == 0 then
    return true
  end
  local weight, kind = weight_of(route), KINDS[route]
  return requests.weight + weight <= MAX_UNDER_WAY
    and (kind == nil or (requests.taken[kind] or 0) + weight <= MAX_OF_KIND[kind] - (taken[kind] or 0))
end

local function may_begin(client, route, now)
  local requests = clients[client]
  local has_none = not has_room(requests, route)
  if has_none and now < requests.full_until then
    return false
  end
  if has_none or new_clients >= MAX_NEW_CLIENTS then
    count_again()
    requests = clients[client]
  end
  if requests == nil then
    requests = {
      started = setmetatable({}, {__mode = "k"}),
      weight = 0,
      taken = {},
      full_until = 0,
      lane = lane_of(client),
    }
    clients[client] = requests
    new_clients = new_clients + 1
  end
  if not has_room(requests, route) then
    requests.full_until = now + COUNTED_MILLISECONDS
    return false
  end
  requests.started[coroutine.running()] = route
  add(requests, route)
  return true
end

-- How many wrong keys each address has sent since the minute began. Only wrong ones are held up: the address may be
-- a proxy's, and stand for many.
local wrong_keys = {}
local minute = 0

local function too_many_wrong_keys(request)
  local now = math.floor(os.time() / 60)
  if now ~= minute then
    wrong_keys, minute = {}, now
  end
  local address = request:streamInfo():downstreamDirectRemoteAddress():match("^(.*):%d+$") or ""
  wrong_keys[address] = (wrong_keys[address] or 0) + 1
  return wrong_keys[address] > MAX_WRONG_KEYS
end

-- Envoy closes a connection whose request it answers before its end: whoever is refused for now would have to connect again,
-- which takes the gateway as long as the refusal. So the end of a request of fewer bytes is awaited.
local MAX_AWAITED_BYTES = 4096

local function refuse(request, status, retry_after)
  request:respond({[":status"] = status, ["retry-after"] = retry_after}, "")
end

-- All who call without a key are one client, by a name that no key can have.
local ANYONE = {client = "(anyone)", credential = "none", principals = "", scopes = {}}

local function is_open(route)
  return SCOPES[route] ~= nil and next(SCOPES[route]) == nil
end

local function has_scope(holder, route)
  local wanted = SCOPES[route]
  -- A route that leads to no RPC, or is open to everyone.
  if wanted == nil or is_open(route) then
    return true
  end
  for _, scope in ipairs(holder["scopes"]) do
    if wanted[scope] then
      return true
    end
  end
  return false
end

-- The strings of a claim: itself, or the elements of a list. A name with dots may be a path.
local function strings(claims, name)
  local value = claims[name]
  if value == nil then
    value = claims
    for step in name:gmatch("[^.]+") do
      value = type(value) == "table" and value[step] or nil
    end
  end
  local found = {}
  for _, each in ipairs(type(value) == "table" and value or {value}) do
    if type(each) == "string" and each ~= "" then
      found[#found + 1] = each
    end
  end
  return found
end

local function escape(text)
  return (text:gsub("[^%w:@._+/-]", function(character)
    return ("%%%02X"):format(character:byte())
  end))
end

-- Who a checked token stands for; nil where none has come, or nil and what is wrong with it. What no principal may hold
-- is escaped in it, so that no value of a claim can read as another, or as several.
local function token_holder(info)
  local checked = info:dynamicMetadata():get("envoy.filters.http.jwt_authn")
  for issuer, take in pairs(CLAIMS) do
    local claims = checked and checked[issuer]
    if claims then
      -- Envoy passes over extensions that a recipient must understand (RFC 7515, section 4.1.11).
      if checked[issuer .. "_header"].crit ~= nil then
        return nil, "its header has crit"
      end
      local principals, scopes = {}, {unpack(take.scopes)}
      for place, each in ipairs(take.principals) do
        for _, value in ipairs(strings(claims, each.claim)) do
          -- Twice: once for what a principal may hold, and once for the header.
          principals[#principals + 1] = escape(each.prefix .. escape(value))
        end
        -- What a caller makes belongs to its first principal, which the first claim gives: without it, it would
        -- belong to a whole group.
        if place == 1 and #principals == 0 then
          break
        end
      end
      for _, value in ipairs(strings(claims, take.scope)) do
        for scope in value:gmatch("%S+") do
          scopes[#scopes + 1] = scope
        end
      end
      return {
        client = escape(strings(claims, take.client)[1] or ""):sub(1, 128),
        credential = "token",
        principals = table.concat(principals, ","),
        scopes = scopes,
      }
    end
  end
end

function envoy_on_request(request)
  local headers = request:headers()
  local info = request:streamInfo()
  local route = info:routeName()
  local key = headers:get("x-api-key")
  if key == nil then
    key = (headers:get("authorization") or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] +(%S+)$")
  end
  local holder, wrong = token_holder(info)
  if wrong then
    info:dynamicMetadata():set("envoy.filters.http.jwt_authn", "failed", wrong)
    return request:respond({[":status"] = "401"}, wrong)
  elseif holder then
    -- One says who calls, not two.
    if headers:get("x-api-key") then
      return refuse(request, "401")
    end
    if holder.client == "" or holder.principals == "" then
      return refuse(request, "403")
    end
  elseif key == nil and is_open(route) then
    holder = ANYONE
  else
    holder = key and request:filterContext():get(sha256(key))
  end
  if holder == nil or (holder["expires"] and holder["expires"] <= os.time()) then
    if key and too_many_wrong_keys(request) then
      return refuse(request, "429", "60")
    end
    return refuse(request, "401")
  end
  info:dynamicMetadata():set("groundline", "client", holder["client"])
  info:dynamicMetadata():set("groundline", "credential", holder["credential"])
  if not has_scope(holder, route) then
    local wanted = {}
    for scope in pairs(SCOPES[route]) do
      wanted[#wanted + 1] = scope
    end
    table.sort(wanted)
    info:dynamicMetadata():set("groundline", "scopes", table.concat(wanted, " or "))
    return refuse(request, "403")
  end
  local now = tonumber(request:timestamp())
  if not may_begin(holder["client"], route, now) then
    if (tonumber(headers:get("content-length") or "") or MAX_AWAITED_BYTES) < MAX_AWAITED_BYTES then
      request:body()
    end
    return refuse(request, "429", "1")
  end
  if KINDS[route] == "searches" then
    info:dynamicMetadata():set("groundline", "lane", name_of(clients[holder["client"]].lane, now))
  end
  headers:remove("x-api-key")
  headers:remove("authorization")
  headers:replace("x-groundline-principals", holder["principals"])
  -- For the bridge, whose one address for agents leads to several RPCs.
  headers:replace("x-groundline-scopes", table.concat(holder["scopes"], ","))
end

-- What gRPC itself says of a service that stops has no advice, which the suite's own errors have.
function envoy_on_response(response)
  local headers = response:headers()
  if headers:get(":status") == "503" and headers:get("retry-after") == nil then
    headers:add("retry-after", "1")
  end
end
