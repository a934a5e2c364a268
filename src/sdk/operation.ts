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

function hashText(digest: Uint8Array): string {
  return `sha256:${Buffer.from(digest).toString("hex")}`;
}
