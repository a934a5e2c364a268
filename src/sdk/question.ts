import { hidesDotSegment } from "../protocol/constraints/resource_path.ts";
import { CUSTOM_FORM, isRequirableScope } from "../protocol/documents/scopes.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { bindOperation, type Operation, type OperationInput, type Verifier } from "./operation.ts";
import { frozenCopy, payloadDigest } from "./payload.ts";
import type { PrincipalsSetting } from "./principals.ts";
import { type Proof, type ProofSource, readProof } from "./proof.ts";
import type { Cause } from "./record.ts";
import { demand, demandKnown, type Known } from "./settings.ts";

/** The action to authorize. */
export type AuthorizeCall = {
  /** The scope that the action requires. Without a scope, the action is refused. */
  requiredScope: string | undefined;
  /** The proof from the request. Without a proof the action is refused. */
  proof: ProofSource | undefined;
  /** The input of the action: plain data or bytes. With an operation, the proof must be bound to it. */
  payload?: unknown;
  /** If set, requires a proof that was made for this one action. */
  operation?: OperationInput | undefined;
  /**
   * Facts about the request, such as `amount`, `currency` or `path`, with the names that verify expects. The
   * service compares the certificates' constraints with them. With an operation, `resource_id` and `path` are
   * the operation's: leave them out here.
   */
  context?: Readonly<Record<string, string | number>> | undefined;
  /** Root ids that are accepted for this call, in addition to the guard's own rule. */
  principals?: PrincipalsSetting | undefined;
  /** Whether the request has a body to which no proof can be bound, such as one that no parser has read. */
  unreadBody?: boolean;
  /**
   * The header `X-Service-Operation` of the request, in which the agent describes its proof. The guard uses
   * it only to name what differs, for `onFault`.
   */
  described?: string | undefined;
  /** Method and path of the request, without its query. The guard uses it only for `onFault`. */
  request?: string | undefined;
};

const CALL: Known<AuthorizeCall> = {
  ...{ requiredScope: true, proof: true, payload: true, operation: true },
  ...{ context: true, principals: true, unreadBody: true, described: true, request: true },
};
const OPERATION: Known<OperationInput> = {
  ...{ action: true, invocationId: true, agentId: true, resourceId: true },
  ...{ requestedPath: true, sessionId: true, actionProfile: true },
};

/** A call that the guard has read. Later changes to the caller's objects have no effect on it. */
export type ReadCall = {
  requiredScope: string;
  proof: Proof;
  payload: unknown;
  context: AuthorizeCall["context"];
  /** The operation and its payload's digest. To hash the operation, the guard needs its verifier's name. */
  bound: { input: OperationInput & { agentId: string }; digest: Uint8Array | undefined } | undefined;
};

/** A call of verify, ready to send. */
export type Question = {
  requiredScope: string;
  operation: Operation | undefined;
  payload: unknown;
  /** The request body as JSON. */
  body: string;
};

/**
 * Reads the whole call synchronously. Returns the cause if the guard can refuse the request without calling
 * verify. Throws TypeError if the application passed invalid arguments.
 */
export function readCall(
  call: AuthorizeCall,
): ReadCall | { cause: Cause; requiredScope: string | undefined } {
  demandKnown("call", call, CALL);
  if (call.operation !== undefined) demandKnown("operation", call.operation, OPERATION);
  const { requiredScope, proof: source } = call;
  if (requiredScope === undefined || requiredScope === "") return { cause: "no_scope", requiredScope };
  demandScope(requiredScope);
  if (source === undefined || source === "") return { cause: "no_proof", requiredScope };
  const proof = readProof(source);
  if (proof === undefined) return { cause: "malformed_proof", requiredScope };
  const context = factsOf(call);
  const fault = faultOf(context);
  if (fault !== undefined) return { cause: fault, requiredScope };
  try {
    const payload = frozenCopy(call.payload);
    const read = { requiredScope, proof, payload, context };
    if (call.operation === undefined) return { ...read, bound: undefined };
    if (call.unreadBody === true) return { cause: "unbindable_payload", requiredScope };
    const { agentId = proof.agentId, invocationId } = call.operation;
    if (!agentId || !invocationId) return { cause: "incomplete_operation", requiredScope };
    return { ...read, bound: { input: { ...call.operation, agentId }, digest: payloadDigest(payload) } };
  } catch (error) {
    if (error instanceof ProtocolError) return { cause: "unbindable_payload", requiredScope };
    throw error;
  }
}

/** Returns the call of verify, or the cause if the operation has no hash. */
export function questionOf(
  read: ReadCall,
  verifier: Verifier | undefined,
): Question | { cause: Cause; requiredScope: string } {
  const { requiredScope, proof, payload, bound, context } = read;
  try {
    if (bound !== undefined && verifier === undefined) {
      throw new TypeError("verifier: is required for proofs bound to an operation");
    }
    const operation =
      bound &&
      verifier &&
      bindOperation(bound.input, { requiredScope, verifier, payloadDigest: bound.digest });
    const others = JSON.stringify({ required_scope: requiredScope, operation, context });
    const body = `{"${proof.member}":${proof.json},${others.slice(1)}`;
    return { requiredScope, operation, payload, body };
  } catch (error) {
    if (error instanceof ProtocolError) return { cause: "unbindable_payload", requiredScope };
    throw error;
  }
}

/**
 * Throws TypeError for a scope that no certificate can grant, which is a mistake of the application. `name`
 * is the setting that has the scope.
 */
export function demandScope(scope: unknown, name = "requiredScope"): asserts scope is string {
  demand(
    typeof scope === "string" && isRequirableScope(scope),
    `${name}: must be one scope of the vocabulary, or ${CUSTOM_FORM} of two to four parts; no wildcard`,
  );
}

type Facts = AuthorizeCall["context"];

/**
 * Returns the facts of a call. With an operation, takes its resource and path, without the path's query.
 * Throws TypeError if the context names others, because they would belong to another action.
 */
function factsOf({ operation, context }: AuthorizeCall): Facts {
  if (operation === undefined) return context;
  const { resourceId = "", requestedPath = "" } = operation;
  const own = { resource_id: resourceId, path: requestedPath.split("?", 1)[0] ?? "" };
  const facts: Record<string, string | number> = { ...context };
  for (const [name, value] of Object.entries(own)) {
    if (facts[name] !== undefined && facts[name] !== value) {
      throw new TypeError(`context: leave out ${name}, because the operation determines it`);
    }
    if (value !== "") facts[name] = value;
  }
  return Object.keys(facts).length === 0 ? undefined : facts;
}

function faultOf({ amount = 0, path = "" }: Facts = {}): Cause | undefined {
  if (!(typeof amount === "number" && amount >= 0 && amount < Infinity)) return "invalid_amount";
  return hidesDotSegment(String(path)) ? "hidden_dot_segment" : undefined;
}
