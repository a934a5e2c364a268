import type { DelegationState } from "../../operator_calls.ts";
import type { Condition, DelegationStatus } from "../kinds.ts";
import { definedOnly, type Fact, factsBeside, readiness, type Stated, withFacts } from "./conditions.ts";
import { EXPIRES_SOON, expiryFacts, hasEnded, mayBeInForce } from "./delegation_expiry.ts";
import { beyondCeiling, type DelegationInput } from "./delegation_rules.ts";
import type { StatusReason } from "./ready_reasons.ts";
import { agentObstacle, platformObstacle } from "./references.ts";
import { keptStatus } from "./report_status.ts";

/** Returns the status of a Delegation. `input.state` must be the API's current state, if the API has one. */
export function delegationStatus(input: DelegationInput, verdict: StatusReason): Stated<DelegationStatus> {
  const { object, state, now } = input;
  const { generation } = object.metadata;
  if (state === undefined && object.status.requestID !== undefined && verdict.reason !== "ExternalMissing") {
    return keptStatus(object, readiness(verdict), now);
  }
  const expiry = expiryFacts(state, now);
  const facts = [...readiness(verdict), ...ownFacts(input, verdict), ...expiry];
  const stays = ({ type }: Condition) => expiry.length > 0 || type !== EXPIRES_SOON;
  const before = (object.status.conditions ?? []).filter(stays);
  const conditions = withFacts(before, facts, { generation, now });
  if (verdict.reason === "ExternalMissing") return forgottenStatus(input, conditions);
  return definedOnly<Stated<DelegationStatus>>({
    observedGeneration: generation,
    requestID: state?.request_id,
    certID: state?.cert_id ?? undefined,
    approvedScope: state?.approved_scope ?? undefined,
    certStatus: state === undefined ? undefined : certStatus(state, now),
    issuedAt: state?.issued_at ?? undefined,
    expiresAt: state?.expires_at ?? undefined,
    decidedBy: state?.decided_by ?? undefined,
    conditions,
  });
}

/** Keeps what is known about request and certificate, but no longer states that the certificate is valid. */
function forgottenStatus({ object }: DelegationInput, conditions: Condition[]): Stated<DelegationStatus> {
  const { approval: _, certStatus, ...known } = object.status;
  return definedOnly<Stated<DelegationStatus>>({
    ...known,
    certStatus: certStatus === "Active" ? undefined : certStatus,
    observedGeneration: object.metadata.generation,
    conditions,
  });
}

function ownFacts(input: DelegationInput, verdict: StatusReason): Fact[] {
  const { state } = input;
  const { reason } = verdict;
  if (reason === "ExternalMissing") return forgottenFacts(input, verdict);
  const isOpen = state === undefined || (state.status === "pending" && reason !== "Expired");
  const decision = (type: string, isSo: boolean): Fact => ({
    type,
    status: isSo ? "True" : isOpen ? "Unknown" : "False",
    ...(isSo ? {} : { reason }),
  });
  const fact = factsBeside(verdict);
  return [
    references(input),
    ceiling(input),
    fact("Requested", state !== undefined),
    decision("Approved", state !== undefined && state.cert_id !== null),
    decision("Denied", state?.status === "denied"),
    decision("Issued", state !== undefined && state.cert_id !== null),
    fact("Revoked", verdict.reason === "Revoked"),
  ];
}

/** An end that the operator has seen remains stated. Everything else is unknown. */
function forgottenFacts(input: DelegationInput, verdict: StatusReason): Fact[] {
  const { object, now } = input;
  const unknown = mayBeInForce(object, now) ? ["Approved", "Denied", "Issued", "Revoked"] : [];
  return [
    references(input),
    ceiling(input),
    factsBeside(verdict)("Requested", false),
    ...unknown.map((type): Fact => ({ type, status: "Unknown", reason: verdict.reason })),
  ];
}

function references({ object: { spec }, platform, agent }: DelegationInput): Fact {
  const fault =
    platformObstacle(spec.platformRef.name, platform) ??
    agentObstacle(spec.agentRef.name, agent, spec.platformRef.name);
  return { type: "ReferencesResolved", status: fault === undefined ? "True" : "False", ...fault };
}

function ceiling(input: DelegationInput): Fact {
  const over = beyondCeiling(input);
  if (over === undefined) return { type: "WithinCeiling", status: "Unknown", reason: "PlatformNotReady" };
  if (over.length === 0) return { type: "WithinCeiling", status: "True" };
  return {
    type: "WithinCeiling",
    status: "False",
    reason: "CeilingExceeded",
    message: `Scopes beyond the Platform's ceiling: ${over.join(", ")}`,
  };
}

function certStatus(state: DelegationState, now: Date): DelegationStatus["certStatus"] {
  if (state.cert_id === null) return undefined;
  if (state.status === "revoked") return "Revoked";
  return state.expires_at !== null && hasEnded(state.expires_at, now) ? "Expired" : "Active";
}
