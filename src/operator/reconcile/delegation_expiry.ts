import { addSeconds, unixSeconds } from "../../clock.ts";
import type { DelegationState } from "../../operator_calls.ts";
import type { Condition, Delegation } from "../kinds.ts";
import type { Resources } from "../resources.ts";
import { conditionOf, type Fact, isTrue } from "./conditions.ts";

/** Type of the condition that reports whether a certificate in force expires soon. */
export const EXPIRES_SOON = "ExpiresSoon";

/** A certificate expires soon in this part of its lifetime, but at most `MOST_SECONDS` before its expiry. */
const LAST_PART = 0.1;
const MOST_SECONDS = 7 * 24 * 3600;

/** Advice about an authority that may be in force although the service does not know it. */
export const FORGOTTEN_ADVICE =
  "Its authority may still be in force. First check that CLUSTER_ID and OPERATOR_API_URL of the operator have their former values. If the service's database was restored from an older backup, or an older version of the service deleted a request that nobody had decided, remove this object's finalizer by force and create the object again";

/** Returns whether a certificate has expired. It is still valid during the second of `expiresAt`. */
export function hasEnded(expiresAt: string, now: Date): boolean {
  return unixSeconds(now) > unixSeconds(new Date(expiresAt));
}

/**
 * Returns whether the status shows a request or a certificate whose end the operator has not seen. Such an
 * authority may be in force, even if the API does not know it.
 */
export function mayBeInForce({ status }: Delegation, now: Date): boolean {
  const { requestID, certStatus, expiresAt } = status;
  if (requestID === undefined || certStatus === "Revoked" || certStatus === "Expired") return false;
  if (expiresAt !== undefined && hasEnded(expiresAt, now)) return false;
  return conditionOf(status, "Approved")?.status !== "False" && !isTrue(status, "Revoked");
}

/** Returns when `ExpiresSoon` becomes True; `undefined` for a certificate not in force or without expiry. */
export function soonFrom({ status, issued_at, expires_at }: DelegationState): Date | undefined {
  if (status !== "approved" || issued_at === null || expires_at === null) return undefined;
  const end = new Date(expires_at);
  const life = unixSeconds(end) - unixSeconds(new Date(issued_at));
  return addSeconds(end, -Math.min(life * LAST_PART, MOST_SECONDS));
}

/** Returns the condition `ExpiresSoon` of a certificate in force, and no condition for other states. */
export function expiryFacts(state: DelegationState | undefined, now: Date): Fact[] {
  const soon = state && soonFrom(state);
  const end = state?.expires_at;
  if (soon === undefined || end === undefined || end === null || hasEnded(end, now)) return [];
  if (now < soon) return [{ type: EXPIRES_SOON, status: "False", reason: "Active" }];
  return [{ type: EXPIRES_SOON, status: "True", message: `The certificate ends at ${end}` }];
}

/** Records an event when a certificate starts to expire soon. Each certificate gets one such event. */
export function recordExpiresSoon(
  { recordEvent }: Pick<Resources, "recordEvent">,
  object: Delegation,
  status: { conditions: Condition[] },
): void {
  const condition = conditionOf(status, EXPIRES_SOON);
  if (condition?.status !== "True" || isTrue(object.status, EXPIRES_SOON)) return;
  const message = `${condition.message}; to keep the authority longer, create another Delegation`;
  recordEvent(object, { type: "Normal", reason: "ExpiresSoon", message });
}
