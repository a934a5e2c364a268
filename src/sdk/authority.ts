import type { Refusal } from "./enforcement.ts";
import type { Operation } from "./operation.ts";
import type { VerificationRecord } from "./record.ts";

/** How an allowed action ended. The guard sends it to `POST …/invocations/{id}/outcome`. */
export type Outcome = "executed" | "failed" | "refused_by_receiver" | "not_attempted";

/** The authority for an allowed action, which the protected code receives. It is frozen. */
export type Authority = {
  readonly requiredScope: string;
  readonly agentId: string | undefined;
  readonly humanId: string | undefined;
  readonly certId: string | undefined;
  readonly grantedScope: readonly string[];
  readonly receiptId: string | undefined;
  readonly receiptHash: string | undefined;
  readonly operation: Operation | undefined;
  /** A frozen copy of the authorized payload, to which an operation's proof is bound. Act on this copy. */
  readonly payload: unknown;
  readonly record: VerificationRecord;
  /**
   * Reports the outcome to the service in the background. Only the first call counts. If the proof was not
   * bound to an operation, does nothing.
   */
  report(outcome: Outcome, detail?: string): void;
};

/** The authority to act, or the refusal to send to the caller. */
export type Authorization =
  | { readonly allowed: true; readonly authority: Authority }
  | { readonly allowed: false; readonly refusal: Refusal; readonly record: VerificationRecord };

/** Creates the authority for an allowed action. */
export function grantAuthority(
  record: VerificationRecord,
  asked: { requiredScope: string; payload: unknown },
  report: Authority["report"],
): Authority {
  const { answer, operation } = record;
  const { granted_scope: scope } = answer;
  return Object.freeze({
    requiredScope: asked.requiredScope,
    agentId: text(answer.agent_id),
    humanId: text(answer.human_id),
    certId: text(answer.cert_id),
    grantedScope: Object.freeze(Array.isArray(scope) ? scope.filter((each) => typeof each === "string") : []),
    receiptId: receiptIdOf(answer),
    receiptHash: text(answer.receipt_hash),
    operation,
    payload: asked.payload,
    record,
    report,
  });
}

/** Creates the authorization result of a refused action. */
export function refused(record: VerificationRecord & { readonly refusal: Refusal }): Authorization {
  return Object.freeze({ allowed: false, refusal: record.refusal, record });
}

/** Returns the receipt's id from a response of verify, if the response contains a receipt. */
export function receiptIdOf({ receipt }: VerificationRecord["answer"]): string | undefined {
  const isObject = typeof receipt === "object" && receipt !== null;
  return isObject && "receipt_id" in receipt ? text(receipt.receipt_id) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
