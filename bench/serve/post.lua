-- For wrk: reports calls of several sessions per thread, each with a new id.
-- The optional first argument is the agent key.

local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local key, sent = nil, 0
function init(args)
  key = args[1]
end

local sessions = 64
function request()
  sent = sent + 1
  local session = string.format("wrk-%d-%d", number, sent % sessions)
  local body = string.format(
    '{"type":"tool.requested","session":"%s","id":"%d","call":"%d","tool":"bash","args":{"command":"cargo test --package part-%d"}}',
    session, sent, sent, sent)
  local headers = { ["Content-Type"] = "application/json" }
  if key then headers["Authorization"] = "Bearer " .. key end
  return wrk.format("POST", "/v1/events", headers, body)
end
