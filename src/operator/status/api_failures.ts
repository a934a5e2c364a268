import type { ErrorCode } from "../../errors.ts";
import type { ApiFailure } from "../api/transport.ts";
import type { AnyObject } from "../kinds.ts";
import type { Visit } from "../queue/queue.ts";
import { conditionOf } from "./conditions.ts";
import { progressOf, type Reason, recheckOf, type StatusReason } from "./reasons.ts";

/** The reason that a refusal of the API means. Any other code is a fault of the spec. */
const refusals: Partial<Record<ErrorCode, Reason>> = {
  namespace_not_bound: "NamespaceNotBound",
  onboarding_incomplete: "NamespaceNotBound",
  invalid_scopes: "InvalidScopes",
  ceiling_widened: "CeilingExceeded",
  ceiling_exceeded: "CeilingExceeded",
  platform_limit: "PlatformLimit",
  external_conflict: "ExternalConflict",
  adoption_not_confirmed: "AdoptionNotConfirmed",
  not_found: "PlatformNotReady",
  no_agent: "AgentNotReady",
  agent_required: "AgentNotReady",
  agent_disabled: "AgentNotReady",
  vault_unavailable: "VaultUnavailable",
  approver_not_linked: "ApproverNotLinked",
  four_eyes_required: "FourEyesRequired",
  approval_policy_missing: "ApprovalPolicyMissing",
  not_available: "ApprovalPolicyMissing",
};

/** What to report of a call that failed. */
export function reasonOf(failure: ApiFailure): StatusReason {
  switch (failure.kind) {
    case "refused":
      return { reason: refusals[failure.code] ?? "InvalidSpec", message: failure.message };
    case "unauthorized":
      return { reason: "AuthorizationFailed", message: failure.message };
    default:
      return { reason: "ApiUnavailable", message: `The API is not available: ${failure.message}` };
  }
}

/** Reasons of what is as it should be until people or the API say otherwise. */
const AT_REST: ReadonlySet<string> = new Set<Reason>([
  "Active",
  "AwaitingApproval",
  "Denied",
  "Revoked",
  "Expired",
]);

/**
 * Whether an object has nothing left to do for its current spec, so that its status can stay through an
 * outage.
 */
export function isAtRest({ metadata, status }: AnyObject): boolean {
  const reason = conditionOf(status, "Ready")?.reason;
  return reason !== undefined && AT_REST.has(reason) && status.observedGeneration === metadata.generation;
}

/** Whether the cause is that the API could not be asked, rather than its answer. */
export function isOutage(failure: ApiFailure): boolean {
  return failure.kind !== "refused";
}

/**
 * When to look again after a verdict: what waits for something that is not watched is tried again by itself.
 */
export function visitAfter(verdict: StatusReason, failure?: ApiFailure): Visit {
  if (failure !== undefined && (isOutage(failure) || progressOf(verdict) === "waiting")) {
    const notBeforeMs = failure.kind === "unavailable" ? failure.retryAfterMs : undefined;
    return { retry: true, ...(notBeforeMs === undefined ? {} : { notBeforeMs }) };
  }
  const afterMs = recheckOf(verdict.reason);
  return afterMs === undefined ? {} : { afterMs };
}
