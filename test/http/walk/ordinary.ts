import { hash } from "node:crypto";
import { createStopTokens } from "../../../src/accounts/mailings/stop_links.ts";
import { approveConnect } from "../../../src/connect/approve_connect.ts";
import { partNames } from "../../../src/installation/installation.ts";
import { changeAddress, deleteAccount } from "../../support/account_codes.ts";
import type { TestApi } from "../../support/api.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { connect } from "../../support/two_companies.ts";
import { agentPath, delegationCalls } from "./delegation_calls.ts";
import type { SeenAnswer } from "./openapi_document.ts";
import { organizationCalls } from "./organization_calls.ts";
import { SCOPE, type Scene, setScene } from "./scene.ts";

type Calls = (api: TestApi, scene: Scene) => Promise<SeenAnswer[]>;

const verifyBody = async (scene: Scene) => ({ ...(await scene.proof()), required_scope: SCOPE });

const platform = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: [SCOPE] };
const question = (scene: Scene) => ({
  subject: { type: "agent", id: scene.agentId },
  action: { name: SCOPE },
  resource: { type: "connection", id: scene.platform.connectionId },
});

const secretCall = ({ person, platform: { connectionId } }: Scene, suffix: string) =>
  person.client.post(`/v1/service/connections/${connectionId}/rotate-webhook-secret${suffix}`);

const CHANNEL = "/v1/service/request-channel";
const setChannel = ({ person }: Scene) =>
  person.client.call("PUT", CHANNEL, { body: { app: "teams", url: "https://hooks.example.com/secret" } });

const sentPath = ({ platform: { connectionId } }: Scene, suffix: string) =>
  `/v1/service/connections/${connectionId}/${suffix}`;

const platformPath = ({ platform }: Scene) => `/v1/service/platforms/${platform.platformId}`;

const adoption = ({ person }: Scene, method: "PUT" | "DELETE", path: string) => {
  const body = { cluster: "c1", namespace: "default", name: "shop" };
  return person.client.call(method, `${path}/adoption`, method === "PUT" ? { body } : {});
};

const postForm = (api: TestApi, path: string, form: Record<string, string>) =>
  api.client().call("POST", `/v1/service/oauth/${path}`, {
    body: new URLSearchParams(form).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });

/** Lets the scene's platform, which is a draft, begin to connect a customer. */
async function begunByProduct(api: TestApi, scene: Scene) {
  const redirect_uri = "http://127.0.0.1/connected";
  await scene.person.client.call("PATCH", platformPath(scene), { body: { redirect_uris: [redirect_uri] } });
  const rotated = await scene.person.client.post(`${platformPath(scene)}/rotate-signing-secret`);
  const verifier = "v".repeat(43);
  const asked = {
    ...{ client_id: scene.platform.platformId, redirect_uri, response_type: "code", state: "s" },
    ...{ code_challenge: hash("sha256", verifier, "base64url"), code_challenge_method: "S256" },
  };
  const answer = await api.client().get(`/v1/service/oauth/authorize?${new URLSearchParams(asked)}`);
  const requestId = answer.headers.get("location")?.split("/connect/")[1] ?? "";
  const form = { ...asked, client_secret: String(rotated.body.signing_secret) };
  return { answer, verifier, requestId, form };
}

/** Lets a customer read the request of {@link begunByProduct}. */
async function readByCustomer(api: TestApi, scene: Scene) {
  const { requestId } = await begunByProduct(api, scene);
  const customer = await api.person();
  await addMember(api, scene.person.accountId, "auditor", customer);
  const path = `/v1/service/connect-requests/${requestId}`;
  return { customer, path, answer: await customer.client.get(path) };
}

const PROPOSALS = "/v1/service/connect-proposals";

/** Returns a new developer of an account, acting for it. */
async function developerOf(api: TestApi, { accountId }: Scene["person"]) {
  const developer = await addMember(api, accountId, "developer");
  return { acting: actingFor(developer, accountId) };
}

/** Connects a new customer to the scene's platform. */
async function connectedTo(api: TestApi, scene: Scene) {
  const { person, connectionId } = await connect(api, scene, { scopes: [SCOPE] });
  return {
    person,
    path: `/v1/service/connected-products/${connectionId}`,
    customer: `${platformPath(scene)}/customers/${connectionId}`,
  };
}

const principalsPath = (scene: Scene) => `${platformPath(scene)}/accepted-principals`;

/** Accepts a new account's root at the scene's platform. */
async function acceptPrincipal(api: TestApi, scene: Scene) {
  const path = `${principalsPath(scene)}/${(await api.person()).humanId}`;
  const body = { scopes: ["data:*", SCOPE], accepted_until: "2099-01-01T00:00:00Z" };
  return { path, answer: await scene.person.client.call("PUT", path, { body }) };
}

/** One call is allowed, one refused, and one without a decision. */
function hook(method: string, suffix: string): Calls {
  return async (_, scene) => {
    const path = `/v1/service/ext-auth${suffix}`;
    const scope = { "x-service-required-scope": SCOPE };
    const { proof_ref } = await scene.proof();
    const ask = (headers: Record<string, string>) => scene.keyed(method, path, undefined, { headers });
    return [
      await ask({ "x-service-proof": proof_ref, ...scope }),
      await ask(scope),
      await ask({ "x-service-api-key": "none", ...scope }),
    ];
  };
}

const hooks = Object.fromEntries(
  ["get", "post", "put", "patch", "delete"].flatMap((method) => [
    [`ext_auth_${method}`, hook(method.toUpperCase(), "")],
    [`ext_auth_${method}_scope`, hook(method.toUpperCase(), `/${SCOPE}/orders/7`)],
  ]),
);

/** Calls to every operation that together produce each of its responses, except errors. */
export const ordinaryCalls: Record<string, Calls> = {
  get_installation_part: async (_, { person }) =>
    Promise.all(partNames.map((part) => person.client.get(`/v1/service/installation/parts/${part}`))),
  list_suspended_endpoints: async (_, { person }) => [
    await person.client.get("/v1/service/installation/suspended-endpoints?limit=1"),
  ],
  send_code: async (api) => [
    await api.client().post("/v1/auth/email/send-code", { email: "a@example.test" }),
  ],
  verify_code: async (api) => {
    const client = api.client();
    const email = "b@example.test";
    await client.post("/v1/auth/email/send-code", { email });
    return [await client.post("/v1/auth/email/verify-code", { email, code: await client.codeFor(email) })];
  },
  set_profile: async (api) => {
    const client = api.client();
    await client.signIn("c@example.test");
    return [await client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" })];
  },
  set_account_type: async (api) => {
    const client = api.client();
    await client.signIn("d@example.test");
    await client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" });
    return [await client.post("/v1/auth/onboarding/account-type", { account_type: "individual" })];
  },
  change_profile: async (_, { person }) => [
    await person.client.call("PATCH", "/v1/auth/profile", {
      body: { first_name: "Ada", last_name: "King" },
    }),
  ],
  send_address_codes: async (_, { person }) => [
    await person.client.post("/v1/auth/address/codes", { email: `new-${person.email}` }),
  ],
  change_address: async (api, { person }) => [(await changeAddress(api, person)).answer],
  undo_address_change: async (api) => {
    const person = await api.person();
    const { undo } = await changeAddress(api, person);
    return [await api.client().post("/v1/auth/address/undo", { token: await undo() })];
  },
  preview_account_deletion: async (_, { person }) => [await person.client.get("/v1/auth/account/deletion")],
  send_deletion_code: async (_, { person }) => [await person.client.post("/v1/auth/account/deletion-code")],
  delete_account: async (api) => [await deleteAccount(api, await api.person())],
  refresh_session: async (_, { person }) => [await person.client.post("/v1/auth/refresh")],
  get_session: async (_, { person }) => [await person.client.get("/v1/auth/session")],
  create_api_key: async (_, { person, keyed, agentId, platform: { connectionId } }) => {
    const path = `/v1/service/connections/${connectionId}/keys`;
    return [
      await person.client.post(path, { role: "agent", agent_id: agentId }),
      await keyed("POST", path, { role: "verify" }),
    ];
  },
  list_api_keys: async (_, { person, keyed, platform: { connectionId } }) => {
    const path = `/v1/service/connections/${connectionId}/keys`;
    return [await person.client.get(`${path}?limit=1`), await keyed("GET", path)];
  },
  end_api_key: async (_, { keyed, keyPrefix, platform: { connectionId } }) => [
    await keyed("DELETE", `/v1/service/connections/${connectionId}/keys/${keyPrefix}`),
  ],
  get_own_api_key: async (api, { keyed, agentKey }) => [
    await keyed("GET", "/v1/service/keys/self"),
    await api.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": agentKey } }),
  ],
  get_credits: async (_, { person, keyed }) => [
    await person.client.get("/v1/service/credits?limit=1"),
    await keyed("GET", "/v1/service/credits"),
  ],
  get_mail_choices: async (_, { person }) => [await person.client.get("/v1/service/mails")],
  change_mail_choices: async (_, { person }) => [
    await person.client.call("PATCH", "/v1/service/mails", { body: { request_waits: "daily" } }),
  ],
  stop_mails: async (api, { person }) => {
    const token = createStopTokens(api.sealingKey).create(person.accountId, "authority_lent");
    return [await api.client().post(`/v1/service/mails/stop?token=${token}`, {})];
  },
  get_request_channel: async (_, scene) => {
    await setChannel(scene);
    return [await scene.person.client.get(CHANNEL)];
  },
  set_request_channel: async (_, scene) => [await setChannel(scene)],
  remove_request_channel: async (_, scene) => {
    await setChannel(scene);
    return [await scene.person.client.call("DELETE", CHANNEL)];
  },
  list_sessions: async (_, { person }) => [await person.client.get("/v1/auth/sessions")],
  end_session: async (_, { person, sessionId }) => [
    await person.client.call("DELETE", `/v1/auth/sessions/${sessionId}`),
  ],
  logout: async (_, { person }) => [await person.client.post("/v1/auth/logout", { everywhere: true })],
  get_principal: async (api, { person }) => {
    const path = `/v1/registry/principals/${person.humanId}`;
    const first = await api.client().get(path);
    const headers = { "if-none-match": first.headers.get("etag") ?? "" };
    return [first, await api.client().get(path, { headers }), await api.client().get(`${path}0`)];
  },
  get_revocation_list: async (api) => {
    const { person, certId } = await setScene(api);
    await person.client.post(`/v1/service/delegations/${certId}/revoke`);
    const path = `/v1/service/revocations/${person.humanId}`;
    const first = await api.client().get(path);
    const headers = { "if-none-match": first.headers.get("etag") ?? "" };
    return [first, await api.client().get(path, { headers })];
  },
  register_personal_platform: async (api) => [(await registerPlatform(await api.person())).answer],
  register_platform: async (api) => {
    const person = await api.person({ organization_name: "Engines" });
    const headers = { "idempotency-key": "one" };
    const twice = [1, 2].map(() => person.client.post("/v1/service/platforms", platform, { headers }));
    return Promise.all(twice);
  },
  list_platforms: async (_, { person }) => [await person.client.get("/v1/service/platforms?limit=1")],
  get_platform: async (_, { person, platform: { platformId } }) => [
    await person.client.get(`/v1/service/platforms/${platformId}`),
  ],
  change_platform: async (_, { person, platform: { platformId } }) => [
    await person.client.call("PATCH", `/v1/service/platforms/${platformId}`, { body: { name: "Store" } }),
  ],
  list_accepted_principals: async (api, scene) => {
    await acceptPrincipal(api, scene);
    return [await scene.person.client.get(`${principalsPath(scene)}?limit=1`)];
  },
  replace_accepted_principals: async (api, scene) => {
    const { humanId } = await api.person();
    const replace = (accepted_principals: object[]) =>
      scene.person.client.call("PUT", principalsPath(scene), { body: { accepted_principals } });
    return [await replace([{ human_id: humanId, scopes: [SCOPE] }]), await replace([])];
  },
  accept_principal: async (api, scene) => [(await acceptPrincipal(api, scene)).answer],
  end_accepted_principal: async (api, scene) => {
    const { path } = await acceptPrincipal(api, scene);
    return [await scene.person.client.call("DELETE", path)];
  },
  list_namespace_bindings: async (_, { person }) => [
    await person.client.get("/v1/service/namespace-bindings"),
  ],
  accept_namespace_binding: async (_, { person }) => [
    await person.client.call("PUT", "/v1/service/namespace-bindings/c1/shop", {
      body: { ceiling: [SCOPE], four_eyes: true },
    }),
  ],
  end_namespace_binding: async (_, { person }) => [
    await person.client.call("DELETE", "/v1/service/namespace-bindings/c1/default"),
  ],
  list_cluster_approvers: async (_, { person }) => [await person.client.get("/v1/service/cluster-approvers")],
  link_cluster_approver: async (_, { person }) => [
    await person.client.post("/v1/service/cluster-approvers", { cluster: "c1", username: "ann" }),
  ],
  unlink_cluster_approver: async (_, scene) => [
    await scene.person.client.call("DELETE", `/v1/service/cluster-approvers/${scene.approverId}`),
  ],
  confirm_platform_adoption: async (_, scene) => [await adoption(scene, "PUT", platformPath(scene))],
  get_platform_adoption: async (_, scene) => {
    const read = () => scene.person.client.get(`${platformPath(scene)}/adoption`);
    const answers = [await read(), await adoption(scene, "PUT", platformPath(scene)).then(read)];
    await adoption(scene, "DELETE", platformPath(scene));
    return answers;
  },
  get_agent_adoption: async (_, scene) => [await scene.person.client.get(`${agentPath(scene)}/adoption`)],
  withdraw_platform_adoption: async (_, scene) => {
    await adoption(scene, "PUT", platformPath(scene));
    return [await adoption(scene, "DELETE", platformPath(scene))];
  },
  confirm_agent_adoption: async (_, scene) => [await adoption(scene, "PUT", agentPath(scene))],
  withdraw_agent_adoption: async (_, scene) => {
    await adoption(scene, "PUT", agentPath(scene));
    return [await adoption(scene, "DELETE", agentPath(scene))];
  },
  get_connection: async (_, { person, platform: { connectionId } }) => [
    await person.client.get(`/v1/service/connections/${connectionId}`),
  ],
  change_connection: async (_, { person, platform: { connectionId } }) => [
    await person.client.call("PATCH", `/v1/service/connections/${connectionId}`, {
      body: {
        verifier_id: "https://shop.example.com",
        registry_answers: true,
        outside_verifiers: ["https://bank.example.com"],
      },
    }),
  ],
  get_callback: async (_, scene) => [await scene.person.client.get(sentPath(scene, "callback"))],
  set_callback: async (_, { person, platform: { connectionId } }) => {
    const put = (callback_url: string | null) =>
      person.client.call("PUT", `/v1/service/connections/${connectionId}/callback`, {
        body: { callback_url },
      });
    return [await put("https://shop.example.com/hook"), await put(null)];
  },
  pause_callback: async (_, scene) => [await scene.person.client.post(sentPath(scene, "callback/pause"))],
  resume_callback: async (_, scene) => [
    await scene.person.client.post(sentPath(scene, "callback/resume")),
    await scene.person.client.post(sentPath(scene, "callback/resume"), { backlog: "discard" }),
  ],
  list_deliveries: async (_, scene) => [
    await scene.person.client.get(
      sentPath(scene, "deliveries?limit=1&state=failed&since=2001-01-01T00:00:00Z"),
    ),
  ],
  get_delivery: async (_, scene) => [
    await scene.person.client.get(sentPath(scene, `deliveries/${scene.deliveryId}`)),
  ],
  resend_delivery: async (_, scene) => [
    await scene.person.client.post(sentPath(scene, `deliveries/${scene.deliveryId}/resend`)),
  ],
  recover_deliveries: async (_, scene) => [
    await scene.person.client.post(sentPath(scene, "deliveries/recover"), { since: "2001-01-01T00:00:00Z" }),
  ],
  list_recoveries: async (_, scene) => [await scene.person.client.get(sentPath(scene, "recoveries"))],
  get_recovery: async (_, scene) => [
    await scene.person.client.get(sentPath(scene, `recoveries/${scene.recoveryId}`)),
  ],
  test_callback: async (_, scene) => [await scene.person.client.post(sentPath(scene, "deliveries/test"))],
  rotate_api_key: async (_, { person, platform: { connectionId } }) => [
    await person.client.post(`/v1/service/connections/${connectionId}/rotate-key`, { grace_seconds: 60 }),
  ],
  end_former_api_keys: async (_, { person, platform: { connectionId } }) => [
    await person.client.post(`/v1/service/connections/${connectionId}/end-former-keys`),
  ],
  rotate_webhook_secret: async (_, scene) => [await secretCall(scene, "")],
  promote_webhook_secret: async (_, scene) => {
    await secretCall(scene, "");
    return [await secretCall(scene, "/promote")];
  },
  rotate_signing_secret: async (_, scene) => [
    await scene.person.client.post(`${platformPath(scene)}/rotate-signing-secret`),
  ],
  oauth_metadata: async (api) => [await api.client().get("/.well-known/oauth-authorization-server")],
  oauth_authorize: async (api, scene) => [(await begunByProduct(api, scene)).answer],
  oauth_push_request: async (api, scene) => {
    const { form } = await begunByProduct(api, scene);
    return [
      await postForm(api, "par", form),
      await postForm(api, "par", { ...form, scope: "wrong" }),
      await postForm(api, "par", { ...form, client_secret: "wrong" }),
    ];
  },
  get_connect_request: async (api, scene) => [(await readByCustomer(api, scene)).answer],
  approve_connect_request: async (api, scene) => {
    const { customer, path, answer } = await readByCustomer(api, scene);
    const body = { scopes: [SCOPE], consent_hash: String(answer.body.consent_hash) };
    return [await customer.client.post(`${path}/approve`, body)];
  },
  propose_connect_request: async (api, { person, connectRequest }) => {
    const { acting } = await developerOf(api, person);
    const path = `/v1/service/connect-requests/${connectRequest}`;
    const { consent_hash } = (await acting.get(path)).body;
    return [await acting.post(`${path}/propose`, { scopes: [SCOPE], consent_hash })];
  },
  list_connect_proposals: async (_, { person }) => [await person.client.get(PROPOSALS)],
  approve_connect_proposal: async (_, { person, proposalId }) => {
    const { items } = (await person.client.get(`${PROPOSALS}?proposal_id=${proposalId}`)).body;
    const [{ consent_hash }] = items as [{ consent_hash: string }];
    const body = { scopes: [SCOPE], consent_hash };
    return [await person.client.post(`${PROPOSALS}/${proposalId}/approve`, body)];
  },
  end_connect_proposal: async (_, { person, proposalId }) => [
    await person.client.call("DELETE", `${PROPOSALS}/${proposalId}`),
  ],
  list_connected_products: async (api, scene) => [
    await (await connectedTo(api, scene)).person.client.get("/v1/service/connected-products"),
  ],
  get_connected_product: async (api, scene) => {
    const { person, path } = await connectedTo(api, scene);
    return [await person.client.get(path)];
  },
  narrow_connected_product: async (api, scene) => {
    const { person, path } = await connectedTo(api, scene);
    return [await person.client.call("PATCH", path, { body: { allowed_scopes: [SCOPE] } })];
  },
  end_connected_product: async (api, scene) => {
    const { person, path } = await connectedTo(api, scene);
    return [await person.client.call("DELETE", path)];
  },
  end_connected_products: async (api, scene) => {
    const { person } = await connectedTo(api, scene);
    return [await person.client.call("DELETE", "/v1/service/connected-products")];
  },
  list_customers: async (api, scene) => {
    await connectedTo(api, scene);
    const path = `${platformPath(scene)}/customers`;
    return [await scene.person.client.get(path), await scene.keyed("GET", `${path}?state=ended`)];
  },
  get_customer: async (api, scene) => {
    const { customer } = await connectedTo(api, scene);
    return [await scene.person.client.get(customer), await scene.keyed("GET", customer)];
  },
  rotate_customer_key: async (api, scene) => [
    await scene.person.client.post(`${(await connectedTo(api, scene)).customer}/rotate-key`),
  ],
  remove_customer: async (api, scene) => [
    await scene.person.client.call("DELETE", (await connectedTo(api, scene)).customer),
  ],
  oauth_token: async (api, scene) => {
    const { form, requestId, verifier } = await begunByProduct(api, scene);
    const { owner, customer } = { owner: scene.person, customer: await api.person() };
    await addMember(api, owner.accountId, "auditor", customer);
    const choice = { accountId: customer.accountId, scopes: [SCOPE] };
    const deps = { db: api.db, secretBox: api.secretBox, clock: api.clock, baseUrl: "http://127.0.0.1" };
    const address = new URL(await approveConnect(deps, customer, requestId, choice));
    const exchange = {
      ...{ ...form, grant_type: "authorization_code", code_verifier: verifier },
      code: address.searchParams.get("code") ?? "",
    };
    return [
      await postForm(api, "token", exchange),
      await postForm(api, "token", exchange),
      await postForm(api, "token", { ...exchange, client_secret: "wrong" }),
    ];
  },
  remove_connection: async (_, { person, platform: { connectionId } }) => [
    await person.client.call("DELETE", `/v1/service/connections/${connectionId}`),
  ],
  list_scopes: async (api) => [await api.client().get("/v1/service/scopes")],
  ...delegationCalls,
  get_own_connection: async (_, scene) => [await scene.keyed("GET", "/v1/service/connection")],
  create_challenge: async (_, scene) => [await scene.keyed("POST", "/v1/service/challenge")],
  present_proof: async (_, scene) => [
    await scene.keyed("POST", `${agentPath(scene)}/present`, { challenge: await scene.challenge() }),
    await scene.keyed("POST", `${agentPath(scene)}/present`, { operation: scene.operation() }),
  ],
  verify_proof: async (_, scene) => {
    const { proof_ref, ...whole } = await verifyBody(scene);
    const { proof_bundle, ...byReference } = await verifyBody(scene);
    const verify = (body: unknown) => scene.keyed("POST", "/v1/service/verify", body);
    return [
      await verify({ ...whole, explain: true }),
      await verify(byReference),
      await verify({
        ...whole,
        proof_bundle: (await scene.proof()).proof_bundle,
        required_scope: "files:read",
      }),
    ];
  },
  try_proof: async (_, scene) => [
    await scene.person.client.post(`${agentPath(scene)}/try`, { required_scope: SCOPE }),
    await scene.person.client.post(`${agentPath(scene)}/try`, {
      required_scope: "files:read",
      cert_id: scene.certId,
      context: { amount: 12.5, currency: "EUR" },
    }),
  ],
  report_outcome: async (_, scene) => [
    await scene.keyed("POST", `/v1/service/invocations/${scene.invocationId}/outcome`, {
      outcome: "executed",
      receipt_id: scene.receiptId,
      occurred_at: "2026-01-31T09:30:00Z",
    }),
  ],
  access_evaluation: async (_, scene) => {
    const { proof_ref } = await scene.proof();
    return [
      await scene.keyed("POST", "/access/v1/evaluation", question(scene)),
      await scene.keyed("POST", "/access/v1/evaluation", { ...question(scene), context: { proof_ref } }),
    ];
  },
  access_evaluations: async (_, scene) => [
    await scene.keyed("POST", "/access/v1/evaluations", question(scene)),
    await scene.keyed("POST", "/access/v1/evaluations", {
      ...question(scene),
      evaluations: [{}, { action: { name: "files:read" } }, { subject: 7 }],
    }),
  ],
  authzen_configuration: async (api) => [await api.client().get("/.well-known/authzen-configuration")],
  ...organizationCalls,
  ...hooks,
};
