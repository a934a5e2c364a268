-- Health of Platforms, Agents and Delegations for Argo CD. Put it into argocd-cm under
-- resource.customizations.health.deputize.io_Platform, _Agent and _Delegation.
local health = { status = "Progressing", message = "The operator has not processed it yet" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
local function is(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end
local ready = conditions["Ready"]
if ready == nil then
  return health
end
health.message = ready.reason .. ": " .. (ready.message or "")
if is("Ready") then
  health.status = "Healthy"
elseif is("Stalled") then
  health.status = "Degraded"
elseif ready.reason == "AwaitingApproval" or ready.reason == "Suspended" then
  -- It waits for a person.
  health.status = "Suspended"
elseif not is("Reconciling") then
  -- It has ended as its spec requires.
  health.status = "Healthy"
end
return health
