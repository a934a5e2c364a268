import { errorCodeOf, type Finding, NO_DECISION, type Ruling } from "./enforcement.ts";
import { type BoundMember, differencesOf, type Operation } from "./operation.ts";

/**
 * A fault for `onFault`. `status` and `code` are those of the service's response:
 * - `key_refused`: the service refused the API key
 * - `verification_failed`: the service did not decide, for the reason `cause`
 * - `proof_for_other_operation`: the proof was not made for the route's `operation`. `differs` names the
 *  members that differ, if the agent described its proof; `operation` alone means that the route has none.
 *  Callers can cause it, and an agent's description is not proven. `isDescribed`: whether the header
 *  `X-Service-Operation` arrived
 * - `request_not_accepted`: the service did not accept the guard's request, for example its context, and did
 *  not decide. `message` is the service's. Callers can cause it where their input becomes context
 * - `invocation_conflict`: one invocation id came with two different actions. Callers can cause it
 * - `credits_exhausted`: the account of the API key has no credit for a decision
 * - `body_not_read`: a request to a bound route had a body that no parser had read, or of a type to which no
 *  proof can be bound. Callers can cause it
 * - an outcome, a scope or the setting `verifier` was not accepted, the service did not return the verifier's
 *  identity, or a function of the settings failed
 *
 * `request` is the method and the path of the request, without its query.
 */
export type GuardFault =
  | { kind: "outcome_not_reported"; invocationId: string; outcome: string; status: number | undefined }
  | { kind: "scope_not_accepted"; requiredScope: string }
  | { kind: "key_refused"; status: number; code: string | undefined }
  | { kind: "verifier_not_accepted"; status: number; code: string | undefined }
  | { kind: "verification_failed"; cause: Finding; status: number | undefined; code: string | undefined }
  | {
      kind: "proof_for_other_operation";
      code: string;
      requiredScope: string;
      operation: Operation | undefined;
      differs: readonly (BoundMember | "operation")[] | undefined;
      isDescribed: boolean;
      request: string | undefined;
    }
  | {
      kind: "request_not_accepted";
      requiredScope: string;
      status: number | undefined;
      code: string;
      message: string | undefined;
      request: string | undefined;
    }
  | { kind: "invocation_conflict"; code: string; request: string | undefined }
  | { kind: "credits_exhausted"; status: number; code: string | undefined }
  | { kind: "body_not_read"; request: string | undefined }
  | { kind: "verifier_not_read"; status: number | undefined }
  | { kind: "record_not_retained"; error: unknown }
  | { kind: "principals_not_read"; error: unknown };

const HINTS: Readonly<Record<GuardFault["kind"], string>> = {
  key_refused: "the service refused the API key. Use a verify key of your platform's connection",
  verifier_not_accepted: "the API key belongs to another verifier than the setting verifier",
  verification_failed: "the service did not decide. Check baseUrl",
  request_not_accepted: "the service did not accept the guard's request. Check the route's scope and context",
  invocation_conflict: "one invocation id came with two actions. Agents need a new id for each action",
  credits_exhausted: "the account of the API key has no credit, so the service does not decide",
  proof_for_other_operation:
    "a request had a proof of another operation than its route's. Compare the agent's call with the route",
  body_not_read:
    "a request had a body that no parser read, or of another type than JSON and application/octet-stream. " +
    "Put the body parser before the guard",
  verifier_not_read: "the service did not return the verifier of the API key",
  scope_not_accepted: "the service does not accept a required scope",
  outcome_not_reported: "the service did not accept the outcome of an action",
  record_not_retained: "the function retain failed",
  principals_not_read: "the function principals failed",
};
const UNDESCRIBED =
  "The request had no header X-Service-Operation, which names what differs. See whether a proxy removes it";
const SHOWN = ["request", "status", "code", "cause", "requiredScope", "differs", "message"];
/** Characters that a line of a log must not contain, because callers choose the path. */
const UNSHOWN = /[^\x21-\x7e]/g;
const UNSHOWN_IN_TEXT = /[^\x20-\x7e]/g;
const MOST_SHOWN = 200;

/** Returns method and path for a log: without query, control characters and spaces, and shortened. */
export function shownRequest(method: string | undefined, target: string): string {
  const [path = ""] = target.split("?", 1);
  return `${method} ${path.slice(0, MOST_SHOWN).replace(UNSHOWN, "_")}`;
}

/**
 * Returns a function that writes the first fault of each kind, and for each set of members that differ, to
 * `console.warn`, without secrets.
 */
export function warnOnce(): (fault: GuardFault) => void {
  const written = new Set<string>();
  return (fault) => {
    const { kind, ...details }: { kind: GuardFault["kind"]; [name: string]: unknown } = fault;
    const id = `${kind} ${details.differs}`;
    if (written.has(id)) return;
    written.add(id);
    const shown = SHOWN.map((name) => (details[name] === undefined ? "" : `, ${name} ${details[name]}`));
    // biome-ignore lint/suspicious/noConsole: an application without onFault has no other place
    console.warn(
      `deputize guard: ${kind}${shown.join("")}: ${hintOf(fault)}. Set onFault to see each fault.`,
    );
  };
}

function hintOf(fault: GuardFault): string {
  const isUnnamed = fault.kind === "proof_for_other_operation" && fault.differs === undefined;
  return isUnnamed && !fault.isDescribed ? `${HINTS[fault.kind]}. ${UNDESCRIBED}` : HINTS[fault.kind];
}

/** The question of the guard, and what the request shows of itself. */
type Asked = {
  requiredScope: string;
  operation: Operation | undefined;
  described: string | undefined;
  request: string | undefined;
};

/** Returns the fault of the application, the agent or the service that verify's response shows, if any. */
export function faultOf(ruling: Ruling, asked: Asked): GuardFault | undefined {
  const { finding, status, answer, refusal } = ruling;
  const { requiredScope } = asked;
  if (finding === "bad_proof") return requestFaultOf(ruling, asked) ?? bindingFaultOf(ruling, asked);
  if (finding === "invalid_scope") return { kind: "scope_not_accepted", requiredScope };
  const code = errorCodeOf(answer);
  if (finding === "invocation_conflict") return { kind: finding, code: finding, request: asked.request };
  if (refusal !== NO_DECISION || finding === "indeterminate") return undefined;
  if (status === 402) return { kind: "credits_exhausted", status, code };
  if (code === "verifier_mismatch" && status === 403) return { kind: "verifier_not_accepted", status, code };
  if (isRefusedKey(status)) return { kind: "key_refused", status, code };
  return { kind: "verification_failed", cause: finding, status, code };
}

/** Returns whether a status of the service means that it refused the API key. */
export function isRefusedKey(status: number | undefined): status is 401 | 403 {
  return status === 401 || status === 403;
}

function requestFaultOf(
  { status, answer }: Ruling,
  { requiredScope, request }: Asked,
): GuardFault | undefined {
  const code = errorCodeOf(answer);
  if (code !== "invalid_request") return undefined;
  const { message } = answer.error as { message?: unknown };
  const shown =
    typeof message === "string" ? message.slice(0, MOST_SHOWN).replace(UNSHOWN_IN_TEXT, "_") : undefined;
  return { kind: "request_not_accepted", requiredScope, status, code, message: shown, request };
}

function bindingFaultOf(
  { answer }: Ruling,
  { requiredScope, operation, described, request }: Asked,
): GuardFault | undefined {
  const code = errorCodeOf(answer);
  const seen = { requiredScope, operation, isDescribed: described !== undefined, request };
  const found = operation && differencesOf(described, operation, requiredScope);
  const kind = "proof_for_other_operation";
  if (code === "session_context_mismatch") {
    return { kind, code, ...seen, differs: operation === undefined ? ["operation"] : found };
  }
  // A proof for another verifier has a challenge that this connection does not know.
  const isOther = code === "invalid_challenge" && found !== undefined;
  return isOther ? { kind, code, ...seen, differs: found } : undefined;
}
