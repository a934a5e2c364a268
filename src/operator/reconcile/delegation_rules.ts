import type { DelegationState } from "../../operator_calls.ts";
import { coversScopes, unregistrableScopes } from "../../protocol/documents/scopes.ts";
import type { Agent, Approval, Delegation, Platform } from "../kinds.ts";
import { BINDINGS_NAME, type Binding } from "../namespace_bindings.ts";
import { conditionOf } from "./conditions.ts";
import { FORGOTTEN_ADVICE, hasEnded, mayBeInForce } from "./delegation_expiry.ts";
import { firstOf, type StatusReason } from "./ready_reasons.ts";
import { agentObstacle, platformObstacle } from "./references.ts";

/** The input for a decision about a Delegation. `state` is absent if the API does not know the Delegation. */
export type DelegationInput = {
  object: Delegation;
  platform?: Platform | undefined;
  agent?: Agent | undefined;
  state?: DelegationState | undefined;
  binding?: Binding | undefined;
  /** Whether this visit has already asked the API to apply the decision from the cluster. */
  hasDecided?: boolean;
  now: Date;
  consoleUrl: string;
};

type DelegationStep =
  | { step: "request" }
  | { step: "decide" }
  | { step: "revoke" }
  | { step: "report"; verdict: StatusReason };

type Rule = (input: DelegationInput) => StatusReason | undefined;
type FiledRule = (input: DelegationInput, state: DelegationState) => StatusReason | undefined;

/** Returns the next step for a Delegation, by the first rule that applies. */
export function nextStep(input: DelegationInput): DelegationStep {
  const { object, state } = input;
  if (state === undefined) {
    const verdict = forgotten(input) ?? missing(input) ?? firstOf(beforeRequest, (rule) => rule(input));
    return verdict === undefined ? { step: "request" } : { step: "report", verdict };
  }
  const isOpen = state.status === "pending" || state.status === "approved";
  if (object.spec.revoked === true && isOpen) return { step: "revoke" };
  const verdict = firstOf(afterRequest, (rule) => rule(input, state));
  if (verdict === undefined && object.status.approval !== undefined && input.hasDecided !== true) {
    const refusal = approverObstacle(object, object.status.approval, input.binding);
    return refusal === undefined ? { step: "decide" } : { step: "report", verdict: refusal };
  }
  return { step: "report", verdict: verdict ?? waiting(input, state) };
}

/**
 * Older versions of the API deleted requests that nobody decided, some time after they ended. The object then
 * keeps the reason that it has reported.
 */
const forgotten: Rule = ({ object: { spec, status } }) => {
  const ready = conditionOf(status, "Ready");
  if (status.requestID === undefined || status.certID !== undefined) return undefined;
  if (ready?.reason === "Expired") return { reason: "Expired", message: ready.message ?? "" };
  if (ready?.reason !== "Revoked") return undefined;
  return { reason: "Revoked", message: ready.message ?? "", ...(spec.revoked === true && { asAsked: true }) };
};

/**
 * If the API no longer knows an authority, the operator does not request it again. Somebody may have ended it
 * on purpose.
 */
const missing: Rule = ({ object, now }) => {
  const { requestID } = object.status;
  if (requestID === undefined) return undefined;
  const what = `The service does not know request ${requestID}, and the operator does not request it again`;
  const advice = mayBeInForce(object, now) ? FORGOTTEN_ADVICE : "Delete this object and create it again";
  return { reason: "ExternalMissing", message: `${what}. ${advice}` };
};

const revokedUnasked: Rule = ({ object }) =>
  object.spec.revoked === true
    ? { reason: "Revoked", message: "Revoked before it was requested", asAsked: true }
    : undefined;

const suspendedUnasked: Rule = ({ object }) =>
  object.spec.suspend === true
    ? { reason: "Suspended", message: "Not requested while suspended" }
    : undefined;

const endedUnasked: Rule = ({ object, now }) =>
  hasRequestedEndPassed(object, now)
    ? { reason: "Expired", message: "expiresAt had passed before the delegation was requested" }
    : undefined;

const platformReady: Rule = ({ object: { spec }, platform }) =>
  platformObstacle(spec.platformRef.name, platform);

const agentReady: Rule = ({ object: { spec }, agent }) =>
  agentObstacle(spec.agentRef.name, agent, spec.platformRef.name);

const scopesValid: Rule = ({ object: { spec } }) => {
  const invalid = unregistrableScopes(spec.scopes);
  return invalid.length === 0
    ? undefined
    : { reason: "InvalidScopes", message: `Unknown scopes: ${invalid.join(", ")}` };
};

const scopesWithinCeiling: Rule = (input) => {
  const over = beyondCeiling(input);
  if (over === undefined || over.length === 0) return undefined;
  return { reason: "CeilingExceeded", message: `Scopes beyond the Platform's ceiling: ${over.join(", ")}` };
};

const beforeRequest: readonly Rule[] = [
  revokedUnasked,
  suspendedUnasked,
  endedUnasked,
  platformReady,
  agentReady,
  scopesValid,
  scopesWithinCeiling,
];

const revoked: FiledRule = ({ object }, { status, reason }) => {
  if (status !== "revoked" && status !== "withdrawn") return undefined;
  const what = status === "revoked" ? "Revoked" : "The request was withdrawn";
  const verdict: StatusReason = { reason: "Revoked", message: because(what, reason) };
  return object.spec.revoked === true ? { ...verdict, asAsked: true } : verdict;
};

const denied: FiledRule = (_, { status, reason, decided_by }) =>
  status === "denied"
    ? { reason: "Denied", message: because(`Denied by ${decided_by ?? "the owner"}`, reason) }
    : undefined;

const requestExpired: FiledRule = (_, { status }) =>
  status === "expired"
    ? { reason: "Expired", message: "Nobody decided about the request in time" }
    : undefined;

const undecidedInTime: FiledRule = (input, { status }) =>
  status === "pending" && hasRequestedEndPassed(input.object, input.now)
    ? { reason: "Expired", message: "expiresAt passed before anybody decided" }
    : undefined;

const certificateExpired: FiledRule = ({ now }, { status, expires_at }) =>
  status === "approved" && expires_at !== null && hasEnded(expires_at, now)
    ? { reason: "Expired", message: `The certificate ended at ${expires_at}`, asAsked: true }
    : undefined;

const active: FiledRule = (input, { status, approved_scope, expires_at }) => {
  if (status !== "approved") return undefined;
  const { spec } = input.object;
  const granted = `${spec.agentRef.name} may ${(approved_scope ?? []).join(", ")}`;
  const notes = [
    `${granted} ${expires_at === null ? "until revoked" : `until ${expires_at}`}`,
    ...(spec.suspend === true ? ["suspending takes nothing back"] : []),
    ...deniedByCeiling(input),
  ];
  return { reason: "Active", message: notes.join("; ") };
};

const suspended: FiledRule = ({ object }) =>
  object.spec.suspend === true
    ? { reason: "Suspended", message: "The request is filed and can still be decided" }
    : undefined;

const afterRequest: readonly FiledRule[] = [
  revoked,
  denied,
  requestExpired,
  undecidedInTime,
  certificateExpired,
  active,
];

/**
 * Returns why a decision in the cluster does not count under the namespace binding. The API applies its own
 * rules afterwards.
 */
export function approverObstacle(
  { spec: { requestedBy } }: Pick<Delegation, "spec">,
  { approver: { username } }: Pick<Approval, "approver">,
  binding: Binding | undefined,
): StatusReason | undefined {
  const account = binding?.account;
  const source = binding?.source ?? BINDINGS_NAME;
  if (account?.approvers !== undefined && !account.approvers.includes(username)) {
    const message = `${username} is not among the approvers of the namespace in ${source}`;
    return { reason: "ApproverNotLinked", message };
  }
  if (account?.fourEyes !== true || (requestedBy !== undefined && requestedBy !== username)) return undefined;
  const message = `${source} requires two people: spec.requestedBy must name somebody other than the approver`;
  return { reason: "FourEyesRequired", message };
}

function waiting(input: DelegationInput, state: DelegationState): StatusReason {
  return suspended(input, state) ?? awaiting(input, state);
}

function awaiting(input: DelegationInput, { account_id, request_id }: DelegationState): StatusReason {
  // The account is in the address, because the person who decides may have several.
  const account = account_id === undefined ? "" : `/for/${account_id}`;
  const link = `${input.consoleUrl.replace(/\/$/, "")}${account}/requests/${request_id}`;
  const message = `The account's owner decides at ${link}${lacksRequester(input)}`;
  return { reason: "AwaitingApproval", message };
}

/** Returns a note if no decision in the cluster can count, whoever decides. */
function lacksRequester({ object, binding }: DelegationInput): string {
  if (binding?.account?.fourEyes !== true || object.spec.requestedBy !== undefined) return "";
  return `. Nobody can approve it in Kubernetes, because ${binding.source} requires two people and spec.requestedBy names nobody. To approve it there, create it again with requestedBy`;
}

/**
 * Returns those of the granted scopes that the Platform does not allow. Before a decision, checks the
 * requested scopes instead. Returns `undefined` without a Platform.
 */
export function beyondCeiling({ object, platform, state }: DelegationInput): string[] | undefined {
  if (platform === undefined) return undefined;
  return coversScopes(platform.spec.defaultAllowedScopes, state?.approved_scope ?? object.spec.scopes);
}

/** Returns whether the requested expiry has passed, so that a certificate can no longer be issued. */
export function hasRequestedEndPassed({ spec }: Delegation, now: Date): boolean {
  return spec.expiresAt !== undefined && hasEnded(spec.expiresAt, now);
}

function deniedByCeiling(input: DelegationInput): string[] {
  const over = beyondCeiling(input) ?? [];
  return over.length === 0
    ? []
    : [`verification denies the scopes that the ceiling no longer contains: ${over.join(", ")}`];
}

function because(what: string, reason: string | null): string {
  return reason === null || reason === "" ? what : `${what}: ${reason}`;
}
