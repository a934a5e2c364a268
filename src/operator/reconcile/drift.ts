import type { ExternalState } from "../api_client.ts";
import type { AnyObject, Delegation } from "../kinds.ts";
import { conditionOf, isTrue } from "./conditions.ts";

import { hasEnded } from "./delegation_expiry.ts";
import { hasRequestedEndPassed } from "./delegation_rules.ts";
import { UNDECIDED } from "./ready_reasons.ts";

/** Returns whether an object's status differs from the API's state, so that it must be reconciled. */
export function hasDrifted(object: AnyObject, state: ExternalState, now: Date): boolean {
  switch (object.kind) {
    case "Platform": {
      const { platform } = state;
      if (platform === undefined || platform.removed) return isTrue(object.status, "Registered");
      return platform.api_key_prefix !== object.status.apiKeyPrefix;
    }
    case "Agent": {
      const { agent } = state;
      if (agent === undefined || agent.disabled) return isTrue(object.status, "KeyReady");
      // An API that was updated after the operator has no key yet.
      if (agent.key === null && isTrue(object.status, "Ready")) return true;
      if (agent.key !== undefined && agent.key?.api_key_prefix !== object.status.apiKeyPrefix) return true;
      return agent.agent_id !== object.status.agentID;
    }
    case "Delegation":
      return delegationDrifted(object, state.delegation, now);
  }
}

function delegationDrifted(object: Delegation, state: ExternalState["delegation"], now: Date): boolean {
  const { status } = object;
  if (state === undefined) return status.requestID !== undefined;
  if (state.request_id !== status.requestID || (state.cert_id ?? undefined) !== status.certID) return true;
  const reason = conditionOf(status, "Ready")?.reason;
  switch (state.status) {
    case "pending":
      if (hasRequestedEndPassed(object, now)) return reason !== "Expired";
      return reason === undefined || !UNDECIDED.has(reason);
    case "approved":
      return reason !== (state.expires_at !== null && hasEnded(state.expires_at, now) ? "Expired" : "Active");
    case "denied":
      return reason !== "Denied";
    case "expired":
      return reason !== "Expired";
    default:
      return reason !== "Revoked";
  }
}
