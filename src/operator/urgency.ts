import type { AnyObject, Delegation } from "./kinds.ts";
import { isTrue } from "./status/conditions.ts";

/** What people wait for: that authority has ended, or that what they decided counts. */
export type Urgency = "revoke" | "decide";

/** What of a Delegation people wait for; `undefined`: nothing. */
export function urgencyOf({ metadata, spec, status }: Delegation): Urgency | undefined {
  if (metadata.deletionTimestamp !== undefined) return "revoke";
  if (spec.revoked === true) return isTrue(status, "Revoked") ? undefined : "revoke";
  const isDecided = isTrue(status, "Approved") || isTrue(status, "Denied");
  return status.approval === undefined || isDecided ? undefined : "decide";
}

/** What takes authority away goes first, and what was just decided. */
export function isUrgent(object: AnyObject): boolean {
  if (object.metadata.deletionTimestamp !== undefined) return true;
  return object.kind === "Delegation" && urgencyOf(object) !== undefined;
}
