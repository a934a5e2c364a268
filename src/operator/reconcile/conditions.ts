import type { ErrorCode } from "../../errors.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { AnyObject, CommonStatus, Condition } from "../kinds.ts";
import type { Visit } from "../queue.ts";
import { progressOf, type Reason, recheckOf, type StatusReason } from "./ready_reasons.ts";

/** A condition as a reconciler states it. Without a reason, the condition's type serves as its reason. */
export type Fact = { type: string; status: Condition["status"]; reason?: string; message?: string };

/** A status together with its conditions, as a reconciler writes it. */
export type Stated<T> = T & { conditions: Condition[] };

const MAX_MESSAGE_LENGTH = 2048;

/** Returns the kstatus conditions Ready, Reconciling and Stalled that follow from a verdict. */
export function readiness(verdict: StatusReason): Fact[] {
  const { reason, message } = verdict;
  const progress = progressOf(verdict);
  return [
    { type: "Ready", status: progress === "done" ? "True" : "False", reason, message },
    { type: "Reconciling", status: progress === "waiting" ? "True" : "False", reason },
    { type: "Stalled", status: progress === "stuck" ? "True" : "False", reason },
  ];
}

/** Returns a function that creates facts from a type and a boolean. A false fact has the verdict's reason. */
export function factsBeside({ reason }: StatusReason): (type: string, isSo: boolean) => Fact {
  return (type, isSo) => (isSo ? { type, status: "True" } : { type, status: "False", reason });
}

/**
 * Returns an object's conditions: first the facts, then the previous conditions of other types. A condition's
 * transition time changes only together with its status.
 */
export function withFacts(
  previous: readonly Condition[],
  facts: readonly Fact[],
  { generation, now }: { generation: number; now: Date },
): Condition[] {
  const stated = facts.map((fact): Condition => {
    const before = previous.find(({ type }) => type === fact.type);
    return {
      type: fact.type,
      status: fact.status,
      reason: fact.reason ?? fact.type,
      message: (fact.message ?? "").slice(0, MAX_MESSAGE_LENGTH),
      observedGeneration: generation,
      lastTransitionTime: before?.status === fact.status ? before.lastTransitionTime : now.toISOString(),
    };
  });
  const types = new Set(facts.map(({ type }) => type));
  return [...stated, ...previous.filter(({ type }) => !types.has(type))];
}

/** Returns the condition of a type; `undefined` if it was never stated. */
export function conditionOf(status: CommonStatus, type: string): Condition | undefined {
  return status.conditions?.find((condition) => condition.type === type);
}

/** Returns whether the condition of a type exists and is True. */
export function isTrue(status: CommonStatus, type: string): boolean {
  return conditionOf(status, type)?.status === "True";
}

/** Returns the status without members that are `undefined`, because YAML has no `undefined`. */
export function definedOnly<T extends object>(status: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== undefined)) as T;
}

/** Reasons for the error codes of a refusal. All other codes mean a fault in the spec. */
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
  action_limited: "LimitReached",
  request_limit: "LimitReached",
  not_available: "ApprovalPolicyMissing",
};

/** Returns the reason and message that report a failed call. */
export function reasonOf(failure: ApiFailure): StatusReason {
  switch (failure.kind) {
    case "refused":
      return { reason: refusals[failure.code] ?? "InvalidSpec", message: failure.message };
    case "unauthorized":
      return { reason: "AuthorizationFailed", message: failure.message };
    case "unrecorded":
      return { reason: "ClusterRefused", message: failure.message };
    default:
      return { reason: "ApiUnavailable", message: `The API is not available: ${failure.message}` };
  }
}

/** Reasons of states that remain until a user or the API changes something. */
const AT_REST: ReadonlySet<string> = new Set<Reason>([
  "Active",
  "AwaitingApproval",
  "Denied",
  "Revoked",
  "Expired",
]);

/** Returns whether the current spec needs no further work, so the status may remain during an outage. */
export function isAtRest({ metadata, status }: AnyObject): boolean {
  const reason = conditionOf(status, "Ready")?.reason;
  return reason !== undefined && AT_REST.has(reason) && status.observedGeneration === metadata.generation;
}

/** Returns whether the API made no decision on the call. A refusal is a decision. */
export function isOutage(failure: ApiFailure): boolean {
  return failure.kind !== "refused";
}

/** Returns when to reconcile an object again. States that wait for something unwatched are rechecked. */
export function visitAfter(verdict: StatusReason, failure?: ApiFailure): Visit {
  if (failure !== undefined && (isOutage(failure) || progressOf(verdict) === "waiting")) {
    const notBeforeMs = failure.kind === "unavailable" ? failure.retryAfterMs : undefined;
    return { retry: true, ...(notBeforeMs === undefined ? {} : { notBeforeMs }) };
  }
  const retryAfterMs = failure?.kind === "refused" ? failure.retryAfterMs : undefined;
  return visitIn(retryAfterMs ?? recheckOf(verdict.reason));
}

/** Returns a visit that repeats after `afterMs` milliseconds, or without `afterMs` only after a change. */
export function visitIn(afterMs: number | undefined): Visit {
  return afterMs === undefined ? {} : { afterMs };
}
