import { unixSeconds } from "../../clock.ts";
import { readSpec } from "../../input/declared_fields.ts";
import { durationSeconds } from "../../input/durations.ts";
import type { DelegationState, DesiredDelegation } from "../../operator_calls.ts";
import type { ApiFailure, ApiResult } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import { type Delegation, placeOf } from "../kinds.ts";
import type { Visit } from "../queue.ts";
import { conditionOf, isOutage, readiness, reasonOf, visitIn } from "./conditions.ts";
import { recordExpiresSoon, soonFrom } from "./delegation_expiry.ts";
import { type DelegationInput, nextStep } from "./delegation_rules.ts";
import { delegationStatus } from "./delegation_status.ts";
import { recheckOf, type StatusReason } from "./ready_reasons.ts";
import { keptStatus, report, reportFailure } from "./report_status.ts";
import { terminate } from "./termination.ts";

const DELETED = "The Delegation was deleted";
/** Maximum number of calls in one visit: the request, its decision and its revocation. */
const MAX_CALLS = 3;

/**
 * Files a Delegation's request once, follows the decision, and revokes the delegation when the spec says so
 * or when the object is deleted.
 */
export async function reconcileDelegation(
  context: OperatorContext,
  object: Delegation,
  failures: number,
): Promise<Visit> {
  const externalId = context.externalIdOf(object);
  if (object.metadata.deletionTimestamp !== undefined) {
    const ending = { reason: object.spec.revokeReason ?? DELETED, isGone: true };
    const release = () => context.api.revokeDelegation(externalId, ending);
    return terminate(context, object, { dependents: [], release, failures });
  }
  const found = await context.states.read(externalId);
  let input = gather(context, object, found.value?.delegation);
  if (found.failure !== undefined) return failed(context, input, found.failure);
  for (let calls = 0; ; calls += 1) {
    const next = nextStep(input);
    if (next.step === "report") {
      const status = delegationStatus(input, next.verdict);
      await report(context, object, status, next.verdict);
      recordExpiresSoon(context.resources, object, status);
      return visitIn(msUntilNext(input) ?? recheckOf(next.verdict.reason));
    }
    // Stops if the object changed during this visit. The change triggers a new visit.
    if (!(await context.resources.isCurrent(object))) return {};
    if (calls === MAX_CALLS) throw new Error(`The API answered, but ${next.step} had no effect`);
    const { value, failure } = await call(context, input, next.step);
    if (failure !== undefined) return failed(context, input, failure, next.step);
    input = { ...input, state: value, hasDecided: input.hasDecided === true || next.step === "decide" };
  }
}

function gather(
  context: OperatorContext,
  object: Delegation,
  state: DelegationState | undefined,
): DelegationInput {
  const { resources, clock, consoleUrl } = context;
  const { metadata, spec } = object;
  return {
    object,
    platform: resources.get("Platform", metadata.namespace, spec.platformRef.name),
    agent: resources.get("Agent", metadata.namespace, spec.agentRef.name),
    state,
    binding: resources.binding(metadata.namespace),
    now: clock.now(),
    consoleUrl,
  };
}

function call(
  { api, externalIdOf }: OperatorContext,
  { object, platform, agent }: DelegationInput,
  step: "request" | "decide" | "revoke",
): Promise<ApiResult<DelegationState>> {
  const externalId = externalIdOf(object);
  if (step === "decide") return api.decideDelegation(externalId, placeOf(object));
  if (step === "revoke") {
    return api.revokeDelegation(externalId, { reason: object.spec.revokeReason, isGone: false });
  }
  if (platform === undefined || agent === undefined) {
    throw new Error("The request's platform or agent is missing");
  }
  return api.putDelegation(
    externalId,
    desiredDelegation(object, externalIdOf(platform), externalIdOf(agent)),
  );
}

/** Returns the body of the call that files a Delegation's request. */
export function desiredDelegation(
  object: Delegation,
  platformId: string,
  agentId: string,
): DesiredDelegation {
  const { spec } = object;
  return {
    object: placeOf(object),
    platform_external_id: platformId,
    agent_external_id: agentId,
    ...readSpec(spec),
    requested_scope: spec.scopes,
    ...(spec.expiresAt === undefined ? {} : { expires_at: new Date(spec.expiresAt).toISOString() }),
    ...(spec.ttl === undefined ? {} : { expires_in: durationSeconds(spec.ttl) }),
    ...(spec.constraints === undefined ? {} : { constraints: spec.constraints }),
    ...(spec.purpose === undefined ? {} : { purpose: spec.purpose }),
  };
}

/** Retries sooner if users wait for this work. */
async function failed(
  context: OperatorContext,
  input: DelegationInput,
  failure: ApiFailure,
  step?: "request" | "decide" | "revoke",
): Promise<Visit> {
  const { object } = input;
  const statusOf = (verdict: StatusReason) =>
    isOutage(failure) ? keptStatus(object, readiness(verdict), input.now) : delegationStatus(input, verdict);
  const verdict = step === "decide" ? issuing(failure) : reasonOf(failure);
  const visit = await reportFailure(context, object, failure, statusOf, verdict);
  const isAwaited = conditionOf(object.status, "Ready")?.reason === "AwaitingApproval";
  const isUrgent = isAwaited || step === "decide" || object.spec.revoked === true;
  return visit.retry ? { ...visit, urgent: isUrgent } : visit;
}

/**
 * Returns the verdict on a failure after an approval in the cluster. A temporary failure has the reason
 * `Issuing`, because the operator retries until the certificate is issued.
 */
function issuing(failure: ApiFailure): StatusReason {
  const verdict = reasonOf(failure);
  const isPassing = verdict.reason === "ApiUnavailable" || verdict.reason === "VaultUnavailable";
  return isPassing ? { reason: "Issuing", message: `Decided in the cluster. ${verdict.message}` } : verdict;
}

/** Returns the milliseconds until the status changes merely because time passes. */
function msUntilNext(input: DelegationInput): number | undefined {
  const now = input.now.getTime();
  const soon = input.state && soonFrom(input.state);
  if (soon !== undefined && soon.getTime() > now) return soon.getTime() - now;
  const expiresAt = comingEnd(input);
  if (expiresAt === undefined) return undefined;
  const end = (unixSeconds(new Date(expiresAt)) + 1) * 1000;
  return end > now ? end - now : undefined;
}

/** Returns when the certificate expires or, for a pending request, can no longer be issued. */
function comingEnd({ object, state }: DelegationInput): string | undefined {
  if (state?.status === "pending") return object.spec.expiresAt;
  return state?.status === "approved" ? (state.expires_at ?? undefined) : undefined;
}
