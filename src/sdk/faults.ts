import { errorCodeOf, type Finding, NO_DECISION, type Ruling } from "./enforcement.ts";
import { type BoundMember, differencesOf, type Operation } from "./operation.ts";

/**
 * A fault for `onFault`. `status` and `code` are those of the service's response:
 * - `key_refused`: the service refused the API key
 * - `verification_failed`: the service did not decide, for the reason `cause`
 * - `proof_for_other_operation`: the proof was not made for the route's `operation`. `differs` names the
 *  members that differ, if the agent described its proof; `operation` alone means that the route has none.
 *  Callers can cause it, and an agent's description is not proven
 * - `body_not_read`: a request to a bound route had a body that no parser had read, or of a type to which no
 *  proof can be bound. Callers can cause it
 * - an outcome, a scope or the setting `verifier` was not accepted, the service did not return the verifier's
 *  identity, or a function of the settings failed
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
    }
  | { kind: "body_not_read" }
  | { kind: "verifier_not_read"; status: number | undefined }
  | { kind: "record_not_retained"; error: unknown }
  | { kind: "principals_not_read"; error: unknown };

const HINTS: Readonly<Record<GuardFault["kind"], string>> = {
  key_refused: "the service refused the API key. Use a verify key of your platform's connection",
  verifier_not_accepted: "the API key belongs to another verifier than the setting verifier",
  verification_failed: "the service did not decide. Check baseUrl",
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
const SHOWN = ["status", "code", "cause", "requiredScope", "differs"];

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
    console.warn(`deputize guard: ${kind}${shown.join("")}: ${HINTS[kind]}. Set onFault to see each fault.`);
  };
}

/** The question of the guard, and the description that the agent gave of its proof. */
type Asked = { requiredScope: string; operation: Operation | undefined; described: string | undefined };

/** Returns the fault of the application, the agent or the service that verify's response shows, if any. */
export function faultOf(ruling: Ruling, asked: Asked): GuardFault | undefined {
  const { finding, status, answer, refusal } = ruling;
  const { requiredScope } = asked;
  if (finding === "bad_proof") return bindingFaultOf(ruling, asked);
  if (finding === "invalid_scope") return { kind: "scope_not_accepted", requiredScope };
  // Callers can cause 409, with the id of an earlier action.
  if (refusal !== NO_DECISION || finding === "indeterminate" || status === 409) return undefined;
  const code = errorCodeOf(answer);
  if (code === "verifier_mismatch" && status === 403) return { kind: "verifier_not_accepted", status, code };
  if (isRefusedKey(status)) return { kind: "key_refused", status, code };
  return { kind: "verification_failed", cause: finding, status, code };
}

/** Returns whether a status of the service means that it refused the API key. */
export function isRefusedKey(status: number | undefined): status is 401 | 403 {
  return status === 401 || status === 403;
}

function bindingFaultOf(
  { answer }: Ruling,
  { requiredScope, operation, described }: Asked,
): GuardFault | undefined {
  const code = errorCodeOf(answer);
  const found = operation && differencesOf(described, operation, requiredScope);
  const kind = "proof_for_other_operation";
  if (code === "session_context_mismatch") {
    return { kind, code, requiredScope, operation, differs: operation === undefined ? ["operation"] : found };
  }
  // A proof for another verifier has a challenge that this connection does not know.
  const isOther = code === "invalid_challenge" && found !== undefined;
  return isOther ? { kind, code, requiredScope, operation, differs: found } : undefined;
}
