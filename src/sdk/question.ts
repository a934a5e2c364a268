import { CUSTOM_FORM, isRequirableScope } from "../protocol/documents/scopes.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { bindOperation, type Operation, type OperationInput } from "./operation.ts";
import { frozenCopy, payloadDigest } from "./payload.ts";
import { type Proof, type ProofSource, readProof } from "./proof.ts";
import type { Cause } from "./record.ts";
import type { ReadSettings } from "./settings.ts";

/** The action to authorize. */
export type AuthorizeCall = {
  /**
   * The scope that the action demands. Without one the action is refused: an operation that is mapped to
   * nothing is permitted nothing.
   */
  requiredScope: string | undefined;
  /** The proof that was sent with the request; without one the action is refused. */
  proof: ProofSource | undefined;
  /** What the action works on: plain data, or bytes. With an operation its digest is bound. */
  payload?: unknown;
  /** Demands a proof that was made for this one action. */
  operation?: OperationInput | undefined;
  /**
   * What certificates' constraints are evaluated against: `amount`, `currency`, `path`, …, as verify takes
   * it.
   */
  context?: Readonly<Record<string, string | number>> | undefined;
  /** The request has a body that nobody has read into `payload`: it cannot be bound. */
  unreadBody?: boolean;
};

/** A call of verify, ready to be sent: nothing in it changes when the caller's objects do. */
export type Question = {
  requiredScope: string;
  operation: Operation | undefined;
  payload: unknown;
  /** JSON. */
  body: string;
};

/**
 * Takes everything from a call in one go. A cause when verify need not be asked: the request shows no
 * authority. Throws TypeError for a call that is the application's fault.
 */
export function readQuestion(
  call: AuthorizeCall,
  verifier: ReadSettings["verifier"],
): Question | { cause: Cause; requiredScope: string | undefined } {
  const { requiredScope, proof: source } = call;
  if (requiredScope === undefined || requiredScope === "") return { cause: "no_scope", requiredScope };
  demandScope(requiredScope);
  if (source === undefined || source === "") return { cause: "no_proof", requiredScope };
  const proof = readProof(source);
  if (proof === undefined) return { cause: "malformed_proof", requiredScope };
  try {
    const payload = frozenCopy(call.payload);
    if (call.operation === undefined) return questionOf(call, { requiredScope, proof, payload });
    if (call.unreadBody === true) return { cause: "unbindable_payload", requiredScope };
    if (verifier === undefined) throw new TypeError("verifier: is required for proofs bound to an operation");
    const { agentId = proof.agentId, invocationId } = call.operation;
    if (!agentId || !invocationId) return { cause: "incomplete_operation", requiredScope };
    const operation = bindOperation(
      { ...call.operation, agentId },
      { requiredScope, verifier, payloadDigest: payloadDigest(payload) },
    );
    return questionOf(call, { requiredScope, proof, payload, operation });
  } catch (error) {
    if (error instanceof ProtocolError) return { cause: "unbindable_payload", requiredScope };
    throw error;
  }
}

/**
 * Throws TypeError for a scope that nothing could ever grant here: a mistake of the application and not of
 * who calls it.
 */
export function demandScope(requiredScope: string): void {
  if (!isRequirableScope(requiredScope)) {
    throw new TypeError(
      `requiredScope: must be one scope of the vocabulary, or ${CUSTOM_FORM} of two to four parts; no wildcard`,
    );
  }
}

function questionOf(
  { context }: AuthorizeCall,
  read: { requiredScope: string; proof: Proof; payload: unknown; operation?: Operation },
): Question {
  const { requiredScope, proof, payload, operation } = read;
  const others = JSON.stringify({ required_scope: requiredScope, operation, context });
  return {
    requiredScope,
    operation,
    payload,
    body: `{"${proof.member}":${proof.json},${others.slice(1)}`,
  };
}
