import { randomUUID } from "node:crypto";
import type { SessionsAnswer } from "../../../src/accounts/sessions/own_sessions.ts";
import { addSeconds } from "../../../src/clock.ts";
import { signRequest } from "../../../src/connect/connect_request.ts";
import { requestHash } from "../../../src/protocol/documents/context_binding.ts";
import { leaderOf, type Person, type TestApi } from "../../support/api.ts";
import { insertDelivery, insertRecovery } from "../../support/deliveries.ts";
import type { CallOptions, HttpAnswer } from "../../support/http.ts";
import { addMember } from "../../support/members.ts";
import {
  approve,
  createAgent,
  registerPlatform,
  selfRequest,
  type TestPlatform,
} from "../../support/platform_world.ts";
import { ask, connect, lend } from "../../support/two_companies.ts";
import type { Operation } from "./openapi_document.ts";

export const SCOPE = "payments:send";
/** A scope within the ceiling that the agent lacks. */
export const ASKED_SCOPE = "data:share";

/** A person's platform with one real object of every kind that has an id. */
export type Scene = {
  person: Person;
  platform: TestPlatform;
  agentId: string;
  /** A pending request. */
  requestId: string;
  /** A pending request of the agent itself, and the evaluation that it is about. */
  askedId: string;
  evaluationId: string;
  certId: string;
  receiptId: string;
  /** The prefix of a key for the agent, and the keys for the agent and for verifying. */
  keyPrefix: string;
  agentKey: string;
  verifyKey: string;
  /** A decided invocation without a reported outcome. */
  invocationId: string;
  approverId: string;
  /** Id of a second sign-in of the person. */
  sessionId: string;
  /** The account of an organization's auditor. For a personal account, an unused id. */
  memberId: string;
  /** A pending invitation to the organization. */
  invitationId: string;
  /** An unverified domain of the organization. */
  domain: string;
  /** A failed delivery, which can be sent again. */
  deliveryId: string;
  /** A finished recovery. */
  recoveryId: string;
  /** The leader's epoch in the cluster c1. */
  epoch: number;
  /** A challenge that is valid for five minutes. Do not spend it. */
  sparedChallenge: string;
  /** Calls the API with the platform's API key. */
  keyed(method: string, path: string, body?: unknown, options?: CallOptions): Promise<HttpAnswer>;
  /** A request by which the platform asks to be connected. */
  connectRequest: string;
  /** The account's proposal to connect that platform. */
  proposalId: string;
  challenge(): Promise<string>;
  /** Returns the body with which the agent asks. */
  asking(): {
    denial: { evaluation_id: string };
    requested_access: { scopes: string[] };
  } & Record<string, unknown>;
  /** Returns a new proof, bound to `operation` if given. */
  proof(operation?: Record<string, string>): Promise<{ proof_bundle: unknown; proof_ref: string }>;
  operation(invocationId?: string, scope?: string): Record<string, string>;
};

/** Creates a scene, for an existing person if given. */
export async function setScene(
  api: TestApi,
  given: { person?: Person; organization?: boolean } = {},
): Promise<Scene> {
  const { organization = false } = given;
  const type = organization ? { organization_name: "Analytical Engines" } : undefined;
  const person = given.person ?? (await api.person(type));
  const path = organization ? "/v1/service/platforms" : undefined;
  const platform = await registerPlatform(person, { callback_url: "https://shop.example.com/hook" }, path);
  const agentId = await createAgent(api.client(), platform);
  const scene = actsOf(api, { person, platform, agentId });
  const approved = await selfRequest(person, platform.connectionId);
  const { body: certificate } = await approve(person, approved, [SCOPE]);
  const certId = String(certificate.cert_id);
  const approver = await person.client.post("/v1/service/cluster-approvers", {
    cluster: "c1",
    username: "somebody",
  });
  await api.client().signIn(person.email);
  const { body: signedIn } = await person.client.get("/v1/auth/sessions");
  const elsewhere = (signedIn as SessionsAnswer).sessions.find(({ current }) => !current);
  return {
    ...scene,
    ...(await keyedObjects(scene)),
    connectRequest: await askedToConnect(api),
    proposalId: await proposedBy(api, person),
    sessionId: String(elsewhere?.session_id),
    ...(await sent(api, platform)),
    ...(organization
      ? await peopleOf(api, person)
      : { memberId: randomUUID(), invitationId: randomUUID(), domain: "example.com" }),
    approverId: String(approver.body.approver_id),
    requestId: await selfRequest(person, platform.connectionId),
    certId,
    epoch: await leaderOf(api, "c1"),
  };
}

const asking = new WeakMap<TestApi, Promise<string>>();

/** Lets a published platform of another account ask to connect. Returns the signed request, once per API. */
function askedToConnect(api: TestApi): Promise<string> {
  const known = asking.get(api) ?? askToConnect(api);
  asking.set(api, known);
  return known;
}

/** Stores a person's proposal to connect the platform of {@link askedToConnect}. Returns its id. */
async function proposedBy(api: TestApi, { accountId }: Person): Promise<string> {
  const proposal_id = randomUUID();
  const [request = ""] = (await askedToConnect(api)).split(".");
  const { platformId, redirectUri } = JSON.parse(Buffer.from(request, "base64url").toString());
  const key = { account_id: accountId, platform_id: platformId };
  await api.db("connect_proposals").where(key).delete();
  await api.db("connect_proposals").insert({
    ...{ proposal_id, ...key, proposed_by: accountId, scopes: [SCOPE], redirect_uri: redirectUri },
    ...{ created_at: api.clock.now(), expires_at: addSeconds(api.clock.now(), 7 * 24 * 3_600) },
  });
  return proposal_id;
}

async function askToConnect(api: TestApi): Promise<string> {
  const { platformId } = await registerPlatform(await api.person());
  const redirectUri = "https://shop.example.com/connected";
  const published = { publish_state: "published", published_domain: "shop.example.com" } as const;
  await api
    .db("platforms")
    .where({ platform_id: platformId })
    .update({ ...published, redirect_uris: [redirectUri] });
  const asked = { platformId, redirectUri, scopes: null, state: "s", challenge: "c".repeat(43) };
  return signRequest(api, { ...asked, accountLabel: null }, "connect_request");
}

/**
 * Creates the scene of a new customer of the platform of `base`, for calls with the API key of the customer's
 * connection. Everything that needs a session is that of `base`.
 */
export async function customerScene(api: TestApi, base: Scene): Promise<Scene> {
  const { person, platform } = base;
  const customer = await connect(api, { person, platform }, { scopes: [SCOPE, ASKED_SCOPE] });
  const { agentId, certId } = await lend(api, customer, { scope: [SCOPE] });
  const place = { platformId: platform.platformId, answer: platform.answer };
  const { connectionId, apiKey } = customer;
  const scene = actsOf(api, { person, platform: { ...place, connectionId, apiKey }, agentId });
  const requestId = await ask(api, customer, { agentId, scope: [SCOPE] });
  return { ...base, ...scene, ...(await keyedObjects(scene)), certId, requestId };
}

/** Makes the calls of an application with the scene's API key: a decision, keys, and an agent that asks. */
async function keyedObjects(scene: ReturnType<typeof actsOf>) {
  const { platform, agentId } = scene;
  const invocationId = randomUUID();
  const operation = scene.operation(invocationId);
  const { proof_bundle } = await scene.proof(operation);
  const decided = await scene.keyed("POST", "/v1/service/verify", {
    proof_bundle,
    operation,
    required_scope: SCOPE,
  });
  if (decided.body.decision !== "allow") throw new Error(decided.text);
  const createKey = async (wish: object) =>
    (await scene.keyed("POST", `/v1/service/connections/${platform.connectionId}/keys`, wish)).body;
  const agentKey = await createKey({ role: "agent", agent_id: agentId });
  const refused = await scene.keyed(
    "POST",
    `/v1/service/connections/${platform.connectionId}/agents/${agentId}/present`,
    { challenge: await scene.challenge(), required_scope: ASKED_SCOPE },
  );
  const evaluationId = String(refused.body.evaluation_id);
  const asking = () => ({
    subject: { type: "agent", id: agentId },
    denial: { evaluation_id: evaluationId },
    requested_access: { scopes: [ASKED_SCOPE] },
    context: { purpose: "Share the report" },
  });
  const asked = await scene.keyed("POST", "/v1/service/access-requests", asking());
  return {
    ...{ evaluationId, asking, askedId: String((asked.body.task as { id: string }).id) },
    sparedChallenge: await scene.challenge(),
    keyPrefix: String(agentKey.api_key_prefix),
    agentKey: String(agentKey.api_key),
    verifyKey: String((await createKey({ role: "verify" })).api_key),
    receiptId: String((decided.body.receipt as { receipt_id: string }).receipt_id),
    invocationId,
  };
}

/** Returns a scene for a test. With `isSpent`, the test may use up objects of the scene. */
export type TakeScene = (use: { isSpent: boolean }) => Promise<Scene>;

/** Tests share an organization's scene until one of them uses up objects. The next test gets a new scene. */
export function shareScenes(api: TestApi): TakeScene {
  let shared: Promise<Scene> | undefined;
  return ({ isSpent }) => {
    const scene = shared ?? setScene(api, { organization: true });
    shared = isSpent ? undefined : scene;
    return scene;
  };
}

/** Operations that change something, but use up no objects of a scene. */
const HARMLESS = new Set([
  ...["send_code", "verify_code", "set_profile", "set_account_type", "refresh_session", "read_invitation"],
  ...["accept_invitation", "invite_organization_member", "add_organization_domain", "register_platform"],
  ...["register_personal_platform", "change_platform", "accept_principal", "end_accepted_principal"],
  ...["replace_accepted_principals", "confirm_platform_adoption", "withdraw_platform_adoption"],
  ...["confirm_agent_adoption", "withdraw_agent_adoption", "resume_callback", "rotate_webhook_secret"],
  ...[
    "rotate_signing_secret",
    "promote_webhook_secret",
    "test_callback",
    "create_api_key",
    "accept_namespace_binding",
    "link_cluster_approver",
  ],
  ...[
    "request_delegation",
    "request_delegation_with_key",
    "create_challenge",
    "present_proof",
    "verify_proof",
    "try_proof",
    "check_receipt",
    "request_access",
  ],
  ...["access_evaluation", "access_evaluations"],
]);

/** Returns whether a successful call to an operation may use up objects of its scene. */
export function spends({ method, operationId }: Operation): boolean {
  return method !== "GET" && !operationId.startsWith("ext_auth_") && !HARMLESS.has(operationId);
}

async function peopleOf(api: TestApi, owner: Person) {
  const { accountId: memberId } = await addMember(api, owner.accountId, "auditor");
  const wish = { email: `${randomUUID()}@example.test`, role: "developer" };
  const { body } = await owner.client.post("/v1/service/organization/members", wish);
  const domain = `d${randomUUID()}.example.com`;
  await owner.client.post("/v1/service/organization/domains", { domain });
  return { memberId, domain, invitationId: String(body.invitation_id) };
}

async function sent({ db, clock }: TestApi, { connectionId }: TestPlatform) {
  const now = clock.now();
  const since = addSeconds(now, -60);
  return {
    deliveryId: await insertDelivery(db, connectionId, { at: since }),
    recoveryId: await insertRecovery(db, connectionId, {
      ...{ since, until: now, state: "done" },
      finished_at: now,
    }),
  };
}

type Actors = Pick<Scene, "person" | "platform" | "agentId">;

function actsOf(api: TestApi, { person, platform, agentId }: Actors) {
  const client = api.client();
  const keyed: Scene["keyed"] = (method, path, body, options = {}) =>
    client.call(method, path, {
      ...options,
      body,
      csrf: false,
      headers: { "x-service-api-key": platform.apiKey, ...options.headers },
    });
  const challenge = async () => String((await keyed("POST", "/v1/service/challenge")).body.challenge);
  return {
    ...{ person, platform, agentId, keyed, challenge },
    async proof(operation?: Record<string, string>) {
      const path = `/v1/service/connections/${platform.connectionId}/agents/${agentId}/present`;
      const wish = {
        challenge: await challenge(),
        required_scope: SCOPE,
        ...(operation ? { operation } : {}),
      };
      const answer = await keyed("POST", path, wish);
      if (answer.status !== 200) throw new Error(answer.text);
      return answer.body as { proof_bundle: unknown; proof_ref: string };
    },
    operation(invocationId: string = randomUUID(), scope = SCOPE) {
      const named = { action: "refund", resource_id: "order-7", requested_path: "/orders/7/refund" };
      const hash = requestHash({ required_scope: scope, operation: named.action, ...named });
      return {
        verifier_id: platform.connectionId,
        workspace_id: person.accountId,
        agent_id: agentId,
        session_id: "s-1",
        invocation_id: invocationId,
        request_hash: `sha256:${Buffer.from(hash).toString("hex")}`,
        ...named,
      };
    },
  };
}
