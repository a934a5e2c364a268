import { randomBytes, randomUUID } from "node:crypto";
import { addSeconds } from "../../../src/clock.ts";
import type { ErrorCode } from "../../../src/errors.ts";
import { MAX_MEMBERS } from "../../../src/organizations/members.ts";
import { MAX_CERTS_PER_REVOCATION_LIST } from "../../../src/protocol/statements/revocation_list.ts";
import { VaultUnavailable } from "../../../src/vault/transport.ts";
import { fillAcceptedPrincipals } from "../../support/accepted_principals.ts";
import { changeAddress } from "../../support/account_codes.ts";
import { leaderOf, OPERATOR_TOKEN, type Person, type TestApi } from "../../support/api.ts";
import { createClient, type HttpAnswer } from "../../support/http.ts";
import { addRevoked } from "../../support/mass_revocation.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { fillKeys } from "../../support/narrow_keys.ts";
import { copyRequest, createAgent, errorCode, registerPlatform } from "../../support/platform_world.ts";
import { startTcpProxy } from "../../support/surroundings/tcp_proxy.ts";
import { sendRaw } from "./call.ts";
import { SCOPE, type Scene, setScene } from "./scene.ts";
import { startWholeApi } from "./world.ts";

/** Causes an error through calls only, and returns the error's response. */
type Scenario = (api: TestApi, scene: Scene) => Promise<HttpAnswer>;

const PLATFORM = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: [SCOPE] };
const UNKNOWN = "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846";

const platforms = ({ person }: Scene, fields = {}, headers = {}) =>
  person.client.post("/v1/service/platforms", { ...PLATFORM, ...fields }, { headers });

const ask = ({ person, platform: { connectionId } }: Scene, fields = {}) =>
  person.client.post("/v1/service/delegations/self-request", { connection_id: connectionId, ...fields });

const approve = ({ person, requestId }: Scene, fields = {}) =>
  person.client.post(`/v1/service/delegations/requests/${requestId}/approve`, {
    approved_scope: [SCOPE],
    ...fields,
  });

const sent = ({ person, platform }: Scene, method: string, path: string, body?: object) =>
  person.client.call(method, `/v1/service/connections/${platform.connectionId}/${path}`, {
    ...(body && { body }),
  });

const addDomain = ({ client }: Person, domain: string) =>
  client.post("/v1/service/organization/domains", { domain });

const verifyDomain = ({ client }: Person, domain: string) =>
  client.post(`/v1/service/organization/domains/${domain}/verify`);

const inviteTo = ({ client }: Person, email: string) =>
  client.post("/v1/service/organization/members", { email, role: "auditor" });

const verify = (scene: Scene, fields = {}) =>
  scene.keyed("POST", "/v1/service/verify", { required_scope: SCOPE, ...fields });

const acceptPrincipal = ({ person, platform }: Scene, humanId: string) =>
  person.client.call("PUT", `/v1/service/platforms/${platform.platformId}/accepted-principals/${humanId}`, {
    body: { scopes: [SCOPE] },
  });

const report = (scene: Scene, outcome: string) =>
  scene.keyed("POST", `/v1/service/invocations/${scene.invocationId}/outcome`, {
    outcome,
    receipt_id: scene.receiptId,
    occurred_at: "2026-01-31T09:30:00Z",
  });

const agents = (scene: Scene) =>
  scene.keyed("POST", `/v1/service/connections/${scene.platform.connectionId}/agents`, {
    name: "bot",
    agent_type: "robot",
  });

async function operate(
  api: TestApi,
  method: string,
  path: string,
  body?: unknown,
  { epoch, token = OPERATOR_TOKEN }: { epoch?: number; token?: string } = {},
) {
  const headers = {
    authorization: `Bearer ${token}`,
    "x-deputize-cluster": "c1",
    "x-deputize-epoch": String(epoch ?? (await leaderOf(api, "c1"))),
  };
  return createClient(api.operatorUrl).call(method, path, { body, headers });
}

async function decideInCluster(
  api: TestApi,
  spec: object = {},
  { isLinked = true } = {},
): Promise<HttpAnswer> {
  const person = await api.person();
  const [platform, agent, delegation] = [randomUUID(), randomUUID(), randomUUID()];
  const object = (name: string) => ({ namespace: "default", name });
  const name = `shop-${platform}`;
  const path = (kind: string, id: string) => `/internal/v1/${kind}/c1.${id}`;
  await operate(api, "PUT", path("platforms", platform), { ...declared(person.email), object: object(name) });
  await operate(api, "PUT", path("agents", agent), {
    object: object("bot"),
    platform_external_id: `c1.${platform}`,
    name: "bot",
    agent_type: "robot",
  });
  const scopes = [SCOPE];
  await operate(api, "PUT", path("delegations", delegation), {
    object: object(`help-${delegation}`),
    platform_external_id: `c1.${platform}`,
    agent_external_id: `c1.${agent}`,
    requested_scope: scopes,
  });
  const username = "ann@example.test";
  if (isLinked) {
    await person.client.post("/v1/service/cluster-approvers", { cluster: "c1", username });
  }
  const now = new Date().toISOString();
  api.clusters.delegations.set(`default/help-${delegation}`, {
    metadata: { uid: delegation, generation: 1, creationTimestamp: now },
    spec: { platformRef: { name }, agentRef: { name: "bot" }, scopes, ...spec },
    status: {
      approval: {
        decision: "Approved",
        approvedScopes: scopes,
        approver: { username },
        observedGeneration: 1,
      },
    },
  });
  return operate(api, "POST", `${path("delegations", delegation)}/decision`, {
    object: object(`help-${delegation}`),
  });
}

const declared = (accountEmail: string) => ({
  ...PLATFORM,
  account_email: accountEmail,
  object: { namespace: "default", name: "shop" },
});

/** For each error code, a scenario that causes it. */
export const scenarios: Record<ErrorCode, Scenario> = {
  invalid_request: (_, scene) => scene.person.client.post("/v1/service/platforms", "{"),
  invalid_code: (api) =>
    api.client().post("/v1/auth/email/verify-code", { email: "a@example.test", code: "000000" }),
  invalid_scopes: (_, scene) => platforms(scene, { default_allowed_scopes: ["data:reed"] }),
  surface_not_available: (_, scene) => platforms(scene, { surface_type: "meetings" }),
  ceiling_widened: (_, { person, platform }) =>
    person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { default_allowed_scopes: ["data:read", "files:read"] },
    }),
  invalid_callback_url: (_, scene) => platforms(scene, { callback_url: "ftp://shop.example.com" }),
  invalid_redirect_uri: (_, { person, platform }) =>
    person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { redirect_uris: ["http://shop.example.com/connected"] },
    }),
  invalid_constraints: (_, scene) =>
    ask(scene, { constraints: [{ type: "max_rate", count: 0, window_s: 60 }] }),
  constraint_widened: async (_, scene) => {
    const limit = (max_amount: number) => ({ type: "max_amount", max_amount, currency: "EUR" });
    const { body } = await ask(scene, { constraints: [limit(5)] });
    return scene.person.client.post(`/v1/service/delegations/requests/${String(body.request_id)}/approve`, {
      approved_scope: [SCOPE],
      constraints: [limit(6)],
    });
  },
  invalid_expiry: (_, scene) => ask(scene, { expires_at: "2001-01-01T00:00:00Z" }),
  invalid_principal: (_, scene) => acceptPrincipal(scene, scene.person.humanId),
  principal_limit: async (api, scene) => {
    await fillAcceptedPrincipals(api, scene);
    const { humanId } = await api.person();
    return acceptPrincipal(scene, humanId);
  },
  namespace_limit: async (api, { person }) => {
    const now = new Date();
    const rows = Array.from({ length: 1_000 }, (_, n) => ({
      account_id: person.accountId,
      cluster_id: "c2",
      namespace: `team-${n}`,
      ceiling: null,
      four_eyes: false,
      asked_at: now,
      accepted_at: now,
    }));
    await api.db.batchInsert("namespace_bindings", rows);
    return person.client.call("PUT", "/v1/service/namespace-bindings/c2/team-last", { body: {} });
  },
  filter_limit: async (_, { person }) => {
    const save = (name: string) =>
      person.client.call("PATCH", "/v1/service/audit/filters", { body: { name, query: "result=deny" } });
    for (let n = 0; n < 20; n += 1) await save(`Filter ${n}`);
    return save("One more");
  },
  approver_limit: async (api, { person }) => {
    const rows = Array.from({ length: 1_000 }, (_, n) => ({
      approver_id: randomUUID(),
      account_id: person.accountId,
      cluster_id: "c2",
      username: `user-${n}`,
      linked_at: new Date(),
    }));
    await api.db.batchInsert("cluster_approvers", rows);
    const last = { cluster: "c2", username: "last" };
    return person.client.post("/v1/service/cluster-approvers", last);
  },
  approver_not_linked: (api) => decideInCluster(api, {}, { isLinked: false }),
  four_eyes_required: (api) => decideInCluster(api, { requestedBy: "ann@example.test" }),
  approval_policy_missing: async (api) => {
    api.clusters.missing.add("deputize-approval");
    const answer = await decideInCluster(api);
    api.clusters.missing.clear();
    return answer;
  },
  agent_required: async (api, scene) => {
    await createAgent(api.client(), scene.platform);
    return ask(scene);
  },
  scope_not_requested: (_, scene) => approve(scene, { approved_scope: [] }),
  ceiling_exceeded: (_, scene) => ask(scene, { requested_scope: ["files:read"] }),
  invalid_challenge: async (_, scene) => {
    const { proof_ref } = await scene.proof();
    await verify(scene, { proof_ref });
    return verify(scene, { proof_ref });
  },
  invalid_proof: (_, scene) => verify(scene, { proof_bundle: {} }),
  invalid_scope: async (_, scene) => {
    const { proof_ref } = await scene.proof();
    return verify(scene, { proof_ref, required_scope: "payments:*" });
  },
  session_context_mismatch: async (_, scene) => {
    const { proof_ref } = await scene.proof();
    return verify(scene, { proof_ref, operation: scene.operation() });
  },
  auth_required: async (api, { person }) => {
    api.clock.advance(15 * 60);
    return person.client.get("/v1/auth/session");
  },
  invalid_api_key: async (_, scene) => {
    const { connectionId } = scene.platform;
    await scene.person.client.post(`/v1/service/connections/${connectionId}/rotate-key`);
    return scene.keyed("POST", "/v1/service/challenge");
  },
  operator_unauthorized: (api) => operate(api, "POST", "/internal/v1/state", {}, { token: "none" }),
  credits_exhausted: async () => {
    const poor = await startWholeApi({ config: { ALPHA_CREDITS_MICRO_USD: 2_000 } });
    try {
      return await verifyOnceTooOften(poor);
    } finally {
      await poor.stop();
    }
  },
  csrf_failed: (_, { person }) => person.client.post("/v1/auth/logout", undefined, { csrf: false }),
  onboarding_incomplete: async (api) => {
    const client = api.client();
    await client.signIn(`${randomUUID()}@example.test`);
    return client.get("/v1/service/platforms");
  },
  not_available: (_, { person }) => person.client.post("/v1/service/platforms/personal", PLATFORM),
  verifier_mismatch: async (_, scene) => {
    const { proof_ref } = await scene.proof();
    return verify(scene, { proof_ref, operation: { ...scene.operation(), workspace_id: UNKNOWN } });
  },
  not_found: (_, { person }) => person.client.get(`/v1/service/platforms/${UNKNOWN}`),
  no_active_delegation: async (_, scene) => {
    await scene.person.client.post(`/v1/service/delegations/${scene.certId}/revoke`);
    const path = `/v1/service/connections/${scene.platform.connectionId}/agents/${scene.agentId}/present`;
    return scene.keyed("POST", path, { challenge: await scene.challenge() });
  },
  namespace_not_bound: (api) =>
    operate(api, "PUT", `/internal/v1/platforms/c1.${UNKNOWN}`, declared("nobody@example.test")),
  not_implemented: async (api) => {
    const coded: [string, string] = ["transfer-encoding", "gzip, chunked"];
    const call = { method: "POST", path: "/v1/service/verify", headers: [coded] };
    const answer = await sendRaw(api.url, call);
    return { ...answer, body: JSON.parse(answer.text) };
  },
  method_not_allowed: (api) => api.client().get("/v1/service/verify"),
  onboarding_step: (_, { person }) =>
    person.client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" }),
  platform_limit: async (api) => {
    const person = await api.person();
    await registerPlatform(person);
    return person.client.post("/v1/service/platforms/personal", PLATFORM);
  },
  forbidden: async (api, scene) => {
    const { accountId } = scene.person;
    const auditor = await addMember(api, accountId, "auditor");
    return actingFor(auditor, accountId).post("/v1/service/platforms", PLATFORM);
  },
  invalid_invitation: (_, { person }) =>
    person.client.post("/v1/service/organization/invitations/accept", { token: "none" }),
  already_member: (_, { person }) => inviteTo(person, person.email),
  member_limit: async (api, { person }) => {
    const now = api.clock.now();
    const rows = Array.from({ length: MAX_MEMBERS }, (_, n) => ({
      invitation_id: randomUUID(),
      organization_id: person.accountId,
      email: `${n}@example.test`,
      role: "auditor" as const,
      token_hash: randomBytes(32),
      invited_by: person.accountId,
      created_at: now,
      expires_at: addSeconds(now, 60),
    }));
    await api.db("organization_invitations").insert(rows);
    return inviteTo(person, "one-more@example.test");
  },
  invalid_domain: (_, { person }) => addDomain(person, "co.uk"),
  domain_limit: async (api, { person }) => {
    const rows = Array.from({ length: 20 }, (_, n) => ({
      ...{ organization_id: person.accountId, domain: `${n}.example.com`, token: "t" },
      created_at: api.clock.now(),
    }));
    await api.db("organization_domains").insert(rows);
    return addDomain(person, "shop.example.com");
  },
  domain_record_missing: async (_, { person }) => {
    await addDomain(person, "missing.example.com");
    return verifyDomain(person, "missing.example.com");
  },
  domain_taken: async (api, { person, domain }) => {
    const other = await api.person({ organization_name: "Engines" });
    await addDomain(other, domain);
    await verifyDomain(other, domain);
    return verifyDomain(person, domain);
  },
  domain_not_verified: (_, { person, platform }) =>
    person.client.post(`/v1/service/platforms/${platform.platformId}/publish`),
  address_taken: async (api, { person }) =>
    (await changeAddress(api, person, (await api.person()).email)).answer,
  address_changed: async (api) => {
    const person = await api.person();
    await changeAddress(api, person);
    return person.client.post("/v1/auth/account/deletion-code");
  },
  last_owner: (_, { person }) => person.client.post("/v1/service/organization/leave"),
  request_limit: async (api, scene) => {
    await copyRequest(api.db, scene.requestId, 50);
    return ask(scene);
  },
  already_delegated: async (_, scene) => {
    const path = `/v1/service/delegations/requests/${scene.askedId}/approve`;
    const asking = scene.asking();
    await scene.person.client.post(path, { approved_scope: asking.requested_access.scopes });
    return scene.keyed("POST", "/v1/service/access-requests", asking);
  },
  no_agent: async (_, scene) => {
    const { connectionId } = await registerPlatform(scene.person, {}, "/v1/service/platforms");
    return ask(scene, { connection_id: connectionId });
  },
  no_secret_rotation: (_, { person, platform: { connectionId } }) =>
    person.client.post(`/v1/service/connections/${connectionId}/rotate-webhook-secret/promote`),
  no_callback: async (_, scene) => {
    await sent(scene, "PUT", "callback", { callback_url: null });
    return sent(scene, "POST", "deliveries/test");
  },
  callback_inactive: async (_, scene) => {
    await sent(scene, "POST", "callback/pause");
    return sent(scene, "POST", "deliveries/test");
  },
  delivery_under_way: async (_, scene) => {
    await sent(scene, "POST", `deliveries/${scene.deliveryId}/resend`);
    return sent(scene, "POST", `deliveries/${scene.deliveryId}/resend`);
  },
  delivery_body_erased: async (api, scene) => {
    await api.db("webhook_deliveries").where({ delivery_id: scene.deliveryId }).update({ body: null });
    return sent(scene, "POST", `deliveries/${scene.deliveryId}/resend`);
  },
  delivery_limit: async (api, scene) => {
    await api.db("webhook_deliveries").where({ delivery_id: scene.deliveryId }).update({ attempts: 50 });
    return sent(scene, "POST", `deliveries/${scene.deliveryId}/resend`);
  },
  recovery_open: async (_, scene) => {
    const since = "2001-01-01T00:00:00Z";
    await sent(scene, "POST", "deliveries/recover", { since });
    return sent(scene, "POST", "deliveries/recover", { since });
  },
  agent_disabled: async (_, scene) => {
    const path = `/v1/service/connections/${scene.platform.connectionId}/agents/${scene.agentId}`;
    await scene.keyed("DELETE", path);
    return ask(scene, { agent_id: scene.agentId });
  },
  key_not_allowed: (api, { agentKey }) =>
    api.client().get("/v1/service/credits", { headers: { "x-service-api-key": agentKey } }),
  key_limit: async (api, scene) => {
    await fillKeys(api, scene.platform.connectionId);
    return sent(scene, "POST", "keys", { role: "verify" });
  },
  request_not_pending: async (_, scene) => {
    await approve(scene);
    return approve(scene);
  },
  external_conflict: async (api, scene) => {
    const path = `/internal/v1/platforms/c1.${randomUUID()}`;
    await operate(api, "PUT", path, declared(scene.person.email));
    return operate(api, "PUT", path, declared((await api.person()).email));
  },
  adoption_not_confirmed: (api, scene) => {
    const body = { ...declared(scene.person.email), adopt: scene.platform.platformId };
    return operate(api, "PUT", `/internal/v1/platforms/c1.${randomUUID()}`, body);
  },
  stale_epoch: async (api) => {
    const epoch = await leaderOf(api, "c1");
    return operate(api, "POST", "/internal/v1/state", {}, { epoch: epoch - 1 });
  },
  idempotency_conflict: async (_, scene) => {
    const key = { "idempotency-key": "one" };
    await platforms(scene, {}, key);
    return platforms(scene, { name: "Other" }, key);
  },
  answer_not_kept: async (api, scene) => {
    const path = `/v1/service/connections/${scene.platform.connectionId}/rotate-key`;
    const elsewhere = api.client();
    await elsewhere.signIn(scene.person.email);
    const keyed = { headers: { "idempotency-key": "two" } };
    await scene.person.client.post(path, undefined, keyed);
    return elsewhere.post(path, undefined, keyed);
  },
  invocation_conflict: async (_, scene) => {
    const operation = scene.operation(scene.invocationId);
    const { proof_ref } = await scene.proof(operation);
    return verify(scene, { proof_ref, operation, context: { amount: 5 } });
  },
  outcome_conflict: async (_, scene) => {
    await report(scene, "executed");
    return report(scene, "failed");
  },
  rate_limited: async (api) => {
    const strict = await startWholeApi({ databaseUrl: api.databaseUrl, config: { SEND_CODE_PER_IP: 0 } });
    try {
      return await strict.client().post("/v1/auth/email/send-code", { email: "a@example.test" });
    } finally {
      await strict.stop();
    }
  },
  denied_recently: async (_, scene) => {
    await scene.person.client.post(`/v1/service/delegations/requests/${scene.askedId}/deny`, {});
    return scene.keyed("POST", "/v1/service/access-requests", scene.asking());
  },
  action_limited: async (api) => {
    const path = `/internal/v1/platforms/c1.${randomUUID()}`;
    await operate(api, "PUT", path, declared((await api.person()).email));
    const rotate = () => operate(api, "POST", `${path}/credentials/rotate`, {});
    await rotate();
    await rotate();
    return rotate();
  },
  internal: async (api, scene) => {
    api.vault.failure = new Error("something nobody thought of");
    return agents(scene).finally(() => {
      api.vault.failure = undefined;
    });
  },
  too_many_revoked: async (api) => {
    const { person, certId } = await setScene(api);
    await addRevoked(api.db, certId, MAX_CERTS_PER_REVOCATION_LIST + 1);
    const ask = () => api.client().get(`/v1/service/revocations/${person.humanId}`);
    let answer = await ask();
    // On a busy machine, reading so many rows may exceed the API's own time limit.
    while (errorCode(answer) === "unavailable") answer = await ask();
    return answer;
  },
  vault_unavailable: async (api, scene) => {
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    return agents(scene).finally(() => {
      api.vault.failure = undefined;
    });
  },
  unavailable: async (api) => {
    const proxy = await startTcpProxy(api.databaseUrl);
    const cutOff = await startWholeApi({ databaseUrl: proxy.url });
    try {
      proxy.cut();
      return await cutOff.client().get(`/v1/registry/principals/${"0".repeat(32)}`);
    } finally {
      await cutOff.stop();
      await proxy.stop();
    }
  },
};

/** Error codes whose scenarios use up objects of their scene. */
export const spending: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(["principal_limit", "namespace_limit", "approver_limit", "agent_required", "auth_required"] as const),
  ...(["invalid_api_key", "no_active_delegation", "member_limit", "domain_limit", "domain_taken"] as const),
  ...(["no_callback", "callback_inactive", "delivery_under_way", "delivery_body_erased"] as const),
  ...(["delivery_limit", "recovery_open", "agent_disabled", "request_not_pending"] as const),
  ...(["answer_not_kept", "outcome_conflict", "request_limit", "denied_recently"] as const),
  ...(["already_delegated", "filter_limit"] as const),
]);

/** Requests two decisions with credit for one. */
async function verifyOnceTooOften(api: TestApi): Promise<HttpAnswer> {
  const scene = await setScene(api);
  return verify(scene, { proof_ref: (await scene.proof()).proof_ref });
}
