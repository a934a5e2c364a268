import { awaitStatus } from "./await_status.ts";
import {
  type Application,
  delivered,
  expectDecision,
  expectEqual,
  expectError,
  nextOrder,
  type Patience,
  type Proof,
  present,
  proofOf,
  verify,
} from "./calls.ts";
import { type CodeReader, type Person, signIn } from "./person.ts";
import type { Quickstart } from "./quickstart.ts";
import type { Receiver } from "./receiver.ts";

/** The service, people and objects that the tour works with. */
export type TourWorld = {
  baseUrl: string;
  email: string;
  readCode: CodeReader;
  quickstart: Quickstart;
  /** Receiver of webhooks. Absent if nothing receives webhooks. */
  receiver?: Pick<Receiver, "url" | "useSecret" | "waitFor">;
  patience: Patience;
};

/** Results that the tour collects. A field is missing until its step has run. */
export type TourState = {
  person: Person;
  /** True if this tour accepted the namespace for the account. */
  accepted: boolean;
  application: Application;
  /** The callback URL that the platform's manifest declares. Its events then do not reach the tour. */
  declaredCallback?: string | undefined;
  requestId: string;
  certId: string;
  /** Scopes of the reader's kept delegation. */
  granted: string[];
  proof: Proof;
  spareProof: Proof;
  /** The other company, which the steps about customers know. */
  customer: Customer;
};

/** A company that connects to the platform: its account, and its connection with an agent. */
export type Customer = { account: string; application: Application; proof: Proof };

/** A step of the tour. Its `title` is for readers. `run` resolves to the detail to show. */
export type TourStep<World = TourWorld> = {
  name: string;
  title: string;
  run(world: World, state: TourState): Promise<string>;
};

/** The example requests this scope, and the owner does not approve it. */
const WITHHELD_SCOPE = "custom:orders:refund";
/** The owner approves this scope, and the tour uses it. */
export const USED_SCOPE = "data:read";

const signedIn: TourStep = {
  name: "owner_signed_in",
  title: "A person signs in with a code sent by e-mail",
  async run({ baseUrl, email, readCode }, state) {
    const { person, code, humanId, isNew } = await signIn(baseUrl, email, readCode);
    state.person = person;
    return `${email}, code ${code}, root identity ${humanId}${isNew ? " (new, in the vault)" : ""}`;
  },
};

const namespaceAccepted: TourStep = {
  name: "namespace_accepted",
  title: "The person lets the namespace act for the account",
  async run({ quickstart }, state) {
    const { clusterId, namespace } = await quickstart.place();
    const { namespace_bindings: known } = await state.person.call<{ namespace_bindings: NamespaceBinding[] }>(
      "GET",
      NAMESPACE_BINDINGS,
    );
    const isAccepted = known.some(
      (binding) =>
        binding.cluster === clusterId && binding.namespace === namespace && binding.status === "accepted",
    );
    if (!isAccepted) {
      await state.person.call("PUT", `${NAMESPACE_BINDINGS}/${clusterId}/${namespace}`, {});
      state.accepted = true;
    }
    return `namespace ${namespace} of ${clusterId}`;
  },
};

const platformRegistered: TourStep = {
  name: "platform_registered",
  title: "platform.yaml becomes a platform with an API key",
  async run(world, state) {
    const { baseUrl, quickstart, receiver } = world;
    await quickstart.declarePlatform();
    const credentials = await awaitStatus(world, "platform", async ({ ready, status }) => {
      state.declaredCallback = status.callbackUrl;
      return ready ? quickstart.credentials() : undefined;
    });
    const { connection_id: connectionId, api_key: apiKey, workspace_id, verifier_id } = credentials;
    const verifier = { workspace_id, verifier_id };
    state.application = { baseUrl, connectionId, apiKey, agentId: "", verifier };
    if (receiver !== undefined) {
      receiver.useSecret(credentials.webhook_signing_secret);
    }
    if (receiver !== undefined && state.declaredCallback === undefined) {
      const callback = { callback_url: receiver.url };
      await state.person.call("PUT", `/v1/service/connections/${connectionId}/callback`, callback);
    }
    return `connection ${connectionId}, key ${credentials.api_key_prefix}…`;
  },
};

const agentKeyed: TourStep = {
  name: "agent_keyed",
  title: "agent.yaml becomes an agent with a hybrid key",
  async run(world, state) {
    const agentId = await awaitStatus(world, "agent", ({ ready, status }) =>
      ready ? status.agentID : undefined,
    );
    state.application = { ...state.application, agentId };
    return `agent ${agentId}, Ed25519 + ML-DSA-65, private halves in the vault`;
  },
};

const delegationRequested: TourStep = {
  name: "delegation_requested",
  title: "tour.yaml becomes a request to a person",
  async run(world, state) {
    await world.quickstart.requestTour();
    state.requestId = await awaitStatus(world, "tour", ({ status }) => status.requestID);
    const request = await state.person.call<DelegationRequest>("GET", requestPath(state));
    expectEqual("the request", request.status, "pending");
    return `${state.requestId} asks for ${request.requested_scope.join(", ")}`;
  },
};

const approvedNarrower: TourStep = {
  name: "approved_narrower",
  title: "The person approves less than was asked for",
  async run(_, state) {
    const granted = await approve(state);
    return `${state.certId} grants ${granted.join(", ")}`;
  },
};

const approvalDelivered: TourStep = {
  name: "approval_delivered",
  title: "The application hears of it by webhook",
  run: (world, { certId: id, declaredCallback }) =>
    delivered(world, { id, declaredCallback }, "delegation.approved"),
};

const proofPresented: TourStep = {
  name: "proof_presented",
  title: "The agent proves it for one order, in one call",
  async run(_, state) {
    state.proof = await proofOf(state.application, state.certId, USED_SCOPE);
    state.spareProof = await proofOf(state.application, state.certId, USED_SCOPE);
    return `a proof bundle of ${JSON.stringify(state.proof.bundle).length.toLocaleString("en")} bytes`;
  },
};

const verifiedAllow: TourStep = {
  name: "verified_allow",
  title: `Verify, ${USED_SCOPE}`,
  async run(_, { application, proof }) {
    const answer = await verify(application, proof);
    return `${expectDecision(answer, "allow", "authorized")}, receipt ${String(answer.body.receipt_hash)}`;
  },
};

const otherOrderRefused: TourStep = {
  name: "other_order_refused",
  title: "Verify the same proof for another order",
  async run(_, { application, proof }) {
    const answer = await verify(application, proof, await nextOrder(application, USED_SCOPE));
    return expectError(answer, 400, "session_context_mismatch");
  },
};

const notDelegatedDenied: TourStep = {
  name: "not_delegated_denied",
  title: `Verify what was held back, ${WITHHELD_SCOPE}`,
  async run(_, { application, certId }) {
    const answer = await verify(application, await proofOf(application, certId, WITHHELD_SCOPE));
    return expectDecision(answer, "deny", "not_delegated");
  },
};

const revoked: TourStep = {
  name: "revoked",
  title: "The person revokes, and the application hears of it",
  async run(world, state) {
    const { person, certId: id, declaredCallback } = state;
    const path = `/v1/service/delegations/${id}/revoke`;
    const certificate = await person.call<{ status: string }>("POST", path, { reason: "the tour is over" });
    expectEqual("the certificate", certificate.status, "revoked");
    return delivered(world, { id, declaredCallback }, "delegation.revoked");
  },
};

const revokedDenied: TourStep = {
  name: "revoked_denied",
  title: "Verify a proof made before the revocation",
  run: async (_, { application, spareProof }) =>
    expectDecision(await verify(application, spareProof), "deny", "delegation_revoked"),
};

const presentRefused: TourStep = {
  name: "present_refused",
  title: "Ask for a new proof",
  async run(_, { application, certId }) {
    const order = await nextOrder(application, USED_SCOPE);
    return expectError(await present(application, certId, order), 404, "no_active_delegation");
  },
};

const audited: TourStep = {
  name: "audited",
  title: "Every decision is in the history, newest first",
  async run(_, { person, certId }) {
    const { events } = await person.call<{ events: AuditEvent[] }>(
      "GET",
      "/v1/service/audit/personal?limit=25",
    );
    const decisions = events
      .filter((event) => event.cert_id === certId && event.details.decision !== undefined)
      .map((event) => `${event.details.decision} ${event.details.decision_reason}`)
      .join(", ");
    expectEqual("the history", decisions, "deny delegation_revoked, deny not_delegated, allow authorized");
    return decisions;
  },
};

/** The tour from the declared YAML to an allowed call and the revocation. */
export const tourSteps: readonly TourStep[] = [
  signedIn,
  namespaceAccepted,
  platformRegistered,
  agentKeyed,
  delegationRequested,
  approvedNarrower,
  approvalDelivered,
  proofPresented,
  verifiedAllow,
  otherOrderRefused,
  notDelegatedDenied,
  revoked,
  revokedDenied,
  presentRefused,
  audited,
];

/** API path of the namespaces that may act for the account. */
export const NAMESPACE_BINDINGS = "/v1/service/namespace-bindings";

type NamespaceBinding = { cluster: string; namespace: string; status: string };
type DelegationRequest = {
  status: string;
  requested_scope: string[];
  cert_id: string | null;
  approved_scope: string[] | null;
};
type Certificate = { cert_id: string; status: string; approved_scope: string[] };
type AuditEvent = { cert_id: string; details: { decision?: string; decision_reason?: string } };

function requestPath({ requestId }: TourState): string {
  return `/v1/service/delegations/requests/${requestId}`;
}

/**
 * Approves the request without the withheld scope. Returns the granted scopes. A request that is already
 * approved stays unchanged: the operator may not yet have written its status.
 */
export async function approve(state: TourState): Promise<string[]> {
  const request = await state.person.call<DelegationRequest>("GET", requestPath(state));
  const { requested_scope, cert_id, approved_scope } = request;
  if (request.status === "approved" && cert_id !== null && approved_scope !== null) {
    state.certId = cert_id;
    return approved_scope;
  }
  const kept = requested_scope.filter((scope) => scope !== WITHHELD_SCOPE);
  const wanted = kept.length === 0 ? requested_scope : kept;
  const path = `${requestPath(state)}/approve`;
  const certificate = await state.person.call<Certificate>("POST", path, { approved_scope: wanted });
  expectEqual("the certificate", certificate.status, "approved");
  expectEqual("the approved scope", certificate.approved_scope.join(" "), wanted.join(" "));
  state.certId = certificate.cert_id;
  return certificate.approved_scope;
}
