import { describe, expect, test } from "vitest";
import type { ExternalState } from "../../../src/operator/api_client.ts";

import { hasDrifted } from "../../../src/operator/reconcile/drift.ts";
import type { Reason } from "../../../src/operator/reconcile/ready_reasons.ts";
import { aDelegation, anAgent, anApproval, aPlatform, aState, NOW, truth } from "../objects.ts";

const platform = aPlatform({ status: { apiKeyPrefix: "dpz_1" } });
const platformState = {
  platform_id: "p",
  connection_id: "c",
  api_key_prefix: "dpz_1",
  api_key_issued_at: NOW.toISOString(),
  rotation_request: null,
  removed: false,
};
const agent = anAgent();
const agentState = { agent_id: "a".repeat(32), disabled: false };

const delegation = (reason: Reason, ids: object = { requestID: "req-1" }) =>
  aDelegation({ status: { ...ids, conditions: [truth("Ready", { reason })] } });
const ended = (reason: Reason) => {
  const { status } = delegation(reason);
  return aDelegation({ spec: { expiresAt: "2026-06-01T11:59:59Z" }, status });
};
const issued = { requestID: "req-1", certID: "cert-1" };

describe("hasDrifted()", () => {
  test.each<[string, boolean, Parameters<typeof hasDrifted>[0], ExternalState]>([
    ["an unchanged platform", false, platform, { platform: platformState }],
    [
      "a platform with a different key",
      true,
      platform,
      { platform: { ...platformState, api_key_prefix: "dpz_2" } },
    ],
    [
      "a platform that was removed",
      true,
      platform,
      { platform: { ...platformState, api_key_prefix: null, removed: true } },
    ],
    ["a platform that is unknown", true, platform, {}],
    ["a platform that was never registered", false, aPlatform({ status: { conditions: [] } }), {}],
    ["an unchanged agent", false, agent, { agent: agentState }],
    ["an agent that was disabled", true, agent, { agent: { ...agentState, disabled: true } }],
    [
      "an agent already reported as disabled",
      false,
      anAgent({ status: { conditions: [] } }),
      { agent: { ...agentState, disabled: true } },
    ],
    ["an agent that is unknown", true, agent, {}],
    [
      "an agent that is not in the status",
      true,
      anAgent({ status: { agentID: "b" } }),
      { agent: agentState },
    ],
    ["a request that is pending", false, delegation("AwaitingApproval"), { delegation: aState() }],
    ["a request that was approved", true, delegation("AwaitingApproval"), { delegation: anApproval() }],
    [
      "a request that was denied",
      true,
      delegation("AwaitingApproval"),
      { delegation: aState({ status: "denied" }) },
    ],
    [
      "a request that nobody decided",
      true,
      delegation("AwaitingApproval"),
      { delegation: aState({ status: "expired" }) },
    ],
    ["a request that is unknown", true, delegation("AwaitingApproval"), {}],
    ["a request that was never made", false, delegation("CeilingExceeded", {}), {}],
    ["a request that is not in the status", true, delegation("ApiUnavailable", {}), { delegation: aState() }],
    ["a request whose expiry has passed", true, ended("AwaitingApproval"), { delegation: aState() }],
    ["a suspended request whose expiry has passed", true, ended("Suspended"), { delegation: aState() }],
    ["a request already reported as expired", false, ended("Expired"), { delegation: aState() }],
    ["a suspended request", false, delegation("Suspended"), { delegation: aState() }],
    ["an active certificate", false, delegation("Active", issued), { delegation: anApproval() }],
    [
      "a certificate that was revoked",
      true,
      delegation("Active", issued),
      { delegation: anApproval({ status: "revoked" }) },
    ],
    [
      "a certificate that expired",
      true,
      delegation("Active", issued),
      { delegation: anApproval({ expires_at: "2026-06-01T11:00:00.000Z" }) },
    ],
    [
      "a certificate already reported as expired",
      false,
      delegation("Expired", issued),
      { delegation: anApproval({ expires_at: "2026-06-01T11:00:00.000Z" }) },
    ],
    [
      "a certificate already reported as revoked",
      false,
      delegation("Revoked", issued),
      { delegation: anApproval({ status: "revoked" }) },
    ],
    [
      "a request already reported as denied",
      false,
      delegation("Denied"),
      { delegation: aState({ status: "denied" }) },
    ],
  ])("for %s, returns %s", (_, expected, object, state) => {
    expect(hasDrifted(object, state, NOW)).toBe(expected);
  });
});
