import { createHash } from "node:crypto";
import { requestHash } from "../protocol/documents/context_binding.ts";

/** The single action for which a proof was made, as the application describes it. */
export type OperationInput = {
  /** The name of the action, exactly as the agent bound it. */
  action: string;
  /** The id that the agent gave to this one action. The service makes only one decision for each id. */
  invocationId: string;
  /** The id of the acting agent. Defaults to the agent of the proof bundle. */
  agentId?: string | undefined;
  resourceId?: string | undefined;
  requestedPath?: string | undefined;
  sessionId?: string | undefined;
  actionProfile?: string | undefined;
};

/** The verifier of a proof: the connection's registered name (or its id if unnamed), and its account. */
export type Verifier = { verifierId: string; workspaceId: string };

/** An operation in the form that verify expects. Hashes have the form `sha256:<hex>`. */
export type Operation = {
  readonly verifier_id: string;
  readonly workspace_id: string;
  readonly agent_id: string;
  readonly action: string;
  readonly resource_id: string;
  readonly requested_path: string;
  readonly session_id: string;
  readonly invocation_id: string;
  readonly request_hash: string;
  readonly payload_digest?: string;
  readonly action_profile?: string;
};

/**
 * Returns the operation to which the agent must have bound its proof, with the hashes of wire format §4,
 * frozen. Throws `ProtocolError` `invalid_utf8` for text with a lone surrogate.
 */
export function bindOperation(
  input: OperationInput & { agentId: string },
  bound: { requiredScope: string; verifier: Verifier; payloadDigest: Uint8Array | undefined },
): Operation {
  const { action, invocationId, agentId, resourceId = "", requestedPath = "", sessionId = "" } = input;
  const { requiredScope, verifier, payloadDigest } = bound;
  const hash = requestHash({
    required_scope: requiredScope,
    operation: action,
    resource_id: resourceId,
    requested_path: requestedPath,
    payload_digest: payloadDigest,
  });
  return Object.freeze({
    verifier_id: verifier.verifierId,
    workspace_id: verifier.workspaceId,
    agent_id: agentId,
    action,
    resource_id: resourceId,
    requested_path: requestedPath,
    session_id: sessionId,
    invocation_id: invocationId,
    request_hash: hashText(hash),
    ...(payloadDigest === undefined ? {} : { payload_digest: hashText(payloadDigest) }),
    ...(input.actionProfile === undefined ? {} : { action_profile: input.actionProfile }),
  });
}

/** The members of an operation that a proof covers, and the scope. */
const BOUND_MEMBERS = [
  ...(["required_scope", "action", "resource_id", "requested_path", "payload_digest"] as const),
  ...(["verifier_id", "workspace_id", "agent_id", "session_id", "invocation_id"] as const),
] as const;

/** The name of a member that a proof covers. */
export type BoundMember = (typeof BOUND_MEMBERS)[number];

const DESCRIBED = /^[a-z_]{1,32}=[0-9a-f]{8}$/;
const MOST_DESCRIBED = 32;

/**
 * Returns what an agent tells an application about its proof, in the header `X-Service-Operation`: the name
 * of each member, and the first 8 hex digits of its value's SHA-256, such as `action=9aee6b1b`. With it, the
 * guard can name the members that differ. It proves nothing.
 */
export function describeOperation(operation: Operation, requiredScope: string): string {
  return [...digestsOf(operation, requiredScope)].map((member) => member.join("=")).join(", ");
}

/**
 * Returns the members whose values differ from an agent's description. `undefined` if there is no valid
 * description, or if no described member differs.
 */
export function differencesOf(
  described: string | undefined,
  operation: Operation,
  requiredScope: string,
): readonly BoundMember[] | undefined {
  const members = described?.split(/, ?/, MOST_DESCRIBED) ?? [];
  if (!members.every((member) => DESCRIBED.test(member))) return undefined;
  const given = new Map(members.map((member) => member.split("=") as [string, string]));
  const own = digestsOf(operation, requiredScope);
  const found = BOUND_MEMBERS.filter((name) => given.has(name) && given.get(name) !== own.get(name));
  return found.length === 0 ? undefined : found;
}

function digestsOf(operation: Operation, requiredScope: string): Map<BoundMember, string> {
  const values = { ...operation, required_scope: requiredScope };
  const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 8);
  return new Map(BOUND_MEMBERS.map((name) => [name, digest(values[name] ?? "")]));
}

function hashText(digest: Uint8Array): string {
  return `sha256:${Buffer.from(digest).toString("hex")}`;
}
