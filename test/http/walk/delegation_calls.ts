import type { TestApi } from "../../support/api.ts";
import type { SeenAnswer } from "./openapi_document.ts";
import { SCOPE, type Scene } from "./scene.ts";

export const agentPath = ({ platform, agentId }: Scene) =>
  `/v1/service/connections/${platform.connectionId}/agents/${agentId}`;

const FILTERS = "/v1/service/audit/filters";

/** The usual calls about agents, their delegations, and their history. */
export const delegationCalls: Record<string, (api: TestApi, scene: Scene) => Promise<SeenAnswer[]>> = {
  create_agent: async (_, scene) => [
    await scene.keyed("POST", `/v1/service/connections/${scene.platform.connectionId}/agents`, {
      name: "bot",
      agent_type: "robot",
    }),
  ],
  create_account_agent: async (_, { person, platform: { connectionId } }) => [
    await person.client.post("/v1/service/agents", {
      connection_id: connectionId,
      name: "bot",
      agent_type: "robot",
    }),
  ],
  list_agents: async (_, { person, platform: { connectionId } }) => [
    await person.client.get(`/v1/service/connections/${connectionId}/agents`),
  ],
  get_agent: async (_, scene) => [
    await scene.keyed("GET", agentPath(scene)),
    await scene.person.client.get(agentPath(scene)),
  ],
  list_account_agents: async (_, { person }) => [await person.client.get("/v1/service/agents?q=bot&limit=1")],
  get_account_agent: async (_, { person, agentId }) => [
    await person.client.get(`/v1/service/agents/${agentId}`),
  ],
  delete_agent: async (_, scene) => [await scene.keyed("DELETE", agentPath(scene))],
  request_delegation: async (_, { person, platform: { connectionId } }) => [
    await person.client.post("/v1/service/delegations/self-request", {
      connection_id: connectionId,
      requested_scope: [SCOPE],
      expires_in: 3600,
      constraints: [{ type: "max_amount", currency: "EUR", max_amount: 100 }],
    }),
  ],
  request_delegation_with_key: async (_, { keyed, agentId, platform: { connectionId } }) => [
    await keyed("POST", `/v1/service/connections/${connectionId}/delegation-requests`, {
      agent_id: agentId,
      requested_scope: [SCOPE],
      expires_in: 3600,
    }),
  ],
  list_delegation_requests: async (_, scene) => [
    await scene.person.client.get("/v1/service/delegations/requests?limit=1"),
    await scene.keyed("GET", "/v1/service/delegations/requests?status=pending"),
  ],
  get_delegation_request: async (_, { person, requestId }) => [
    await person.client.get(`/v1/service/delegations/requests/${requestId}`),
  ],
  preview_delegation_approval: async (_, { person, requestId }) => [
    await person.client.get(
      `/v1/service/delegations/requests/${requestId}/preview?approved_scope=${SCOPE}&expires_in=3600`,
    ),
  ],
  approve_delegation_request: async (_, { person, requestId }) => [
    await person.client.post(`/v1/service/delegations/requests/${requestId}/approve`, {
      approved_scope: [SCOPE],
      expires_in: 3600,
    }),
  ],
  deny_delegation_request: async (_, { person, requestId }) => [
    await person.client.post(`/v1/service/delegations/requests/${requestId}/deny`, { reason: "no" }),
  ],
  list_delegations: async (_, { person }) => [
    await person.client.get("/v1/service/delegations?q=bot&state=active&order=ending"),
  ],
  get_delegation: async (_, { person, certId }) => [
    await person.client.get(`/v1/service/delegations/${certId}`),
  ],
  check_delegation: async (_, { person, certId }) => [
    await person.client.get(`/v1/service/delegations/${certId}/chain`),
  ],
  get_delegation_use: async (_, { person, certId }) => [
    await person.client.get(`/v1/service/delegations/${certId}/use`),
  ],
  request_access: async (_, scene) => [
    await scene.keyed("POST", "/v1/service/access-requests", scene.asking()),
  ],
  get_access_request: async (_, scene) => [
    await scene.keyed("GET", `/v1/service/access-requests/${scene.askedId}`),
  ],
  cancel_access_request: async (_, scene) => [
    await scene.keyed("POST", `/v1/service/access-requests/${scene.askedId}/cancel`),
  ],
  revoke_delegation: async (_, { person, certId }) => {
    const revoke = () => person.client.post(`/v1/service/delegations/${certId}/revoke`, { reason: "over" });
    return [await revoke(), await revoke()];
  },
  list_audit_events: async (_, { person }) => [
    await person.client.get("/v1/service/audit/personal?limit=25"),
    await person.client.get("/v1/service/audit/personal?event_type=proof.presented"),
  ],
  export_audit_events: async (_, { person }) => [
    await person.client.get("/v1/service/audit/personal/export"),
    await person.client.get("/v1/service/audit/personal/export?decision=allow&limit=1"),
  ],
  get_audit_event: async (_, scene) => [
    await scene.person.client.get(`/v1/service/audit/personal/${scene.receiptId}`),
  ],
  check_receipt: async (_, scene) => {
    const read = await scene.person.client.get(`/v1/service/receipts/${scene.receiptId}`);
    const { receipt } = read.body;
    return [await scene.person.client.post("/v1/service/receipts/check", { receipt })];
  },
  list_history_filters: async (_, { person }) => {
    await person.client.call("PATCH", FILTERS, { body: { name: "Denials", query: "result=deny" } });
    return [await person.client.get(FILTERS)];
  },
  change_history_filters: async (_, { person }) => [
    await person.client.call("PATCH", FILTERS, { body: { name: "Shop", query: "search=shop" } }),
    await person.client.call("PATCH", FILTERS, { body: { name: "Shop", query: null } }),
  ],
  count_decisions: async (_, { person }) => [
    await person.client.get("/v1/service/audit/personal/days"),
    await person.client.get("/v1/service/audit/personal/days?days=90"),
  ],
  get_receipt: async (_, scene) => [
    await scene.person.client.get(`/v1/service/receipts/${scene.receiptId}`),
    await scene.keyed("GET", `/v1/service/receipts/${scene.receiptId}`),
  ],
};
