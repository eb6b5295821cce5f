-- Health of a Link (multicluster.linkerd.io) in Argo CD: `obj` is the Link, and the table that is returned its health.

local function condition(kind)
  for _, found in ipairs((obj.status or {}).conditions or {}) do
    if found.type == kind then
      return found
    end
  end
  return {}
end

local function health(status, found)
  local message = found.reason or ""
  if (found.message or "") ~= "" then
    message = message .. ": " .. found.message
  end
  return { status = status, message = message }
end

local ready = condition("Ready")
local gateway = condition("GatewayAlive")
local expiring = condition("CredentialsExpiring")

if ready.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "waiting for the controller" }
end
if ready.status ~= "True" then
  -- Syncing ends by itself. Everything else needs somebody.
  return health(ready.reason == "Syncing" and "Progressing" or "Degraded", ready)
end
if gateway.status == "False" then
  return health("Degraded", gateway)
end
if expiring.reason == "Expired" then
  return health("Degraded", expiring)
end
if (obj.status.unhealthy or 0) > 0 then
  return { status = "Degraded", message = obj.status.unhealthy .. " Services are not mirrored or federated" }
end
if expiring.status == "True" then
  return health("Healthy", expiring)
end
return health("Healthy", ready)
