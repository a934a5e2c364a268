import { describe, expect, test } from "vitest";
import { hasEnded } from "../../../src/operator/reconcile/delegation_expiry.ts";
import { type DelegationInput, nextStep } from "../../../src/operator/reconcile/delegation_rules.ts";
import { delegationStatus } from "../../../src/operator/reconcile/delegation_status.ts";
import { aDelegation, anAgent, anApproval, aPlatform, aState, NOW, truth } from "../objects.ts";

const input = (changes: Partial<DelegationInput> = {}): DelegationInput => ({
  object: aDelegation(),
  platform: aPlatform(),
  agent: anAgent(),
  now: NOW,
  consoleUrl: "https://console.example.test",
  ...changes,
});
const outcome = (changes: Partial<DelegationInput>): string => {
  const next = nextStep(input(changes));
  return next.step === "report" ? next.verdict.reason : next.step;
};
const spec = (changes: object) => ({ object: aDelegation({ spec: changes }) });
const deleting = { deletionTimestamp: "2026-06-01T11:59:00.000Z" };
const unregistered = aPlatform({ status: { conditions: [truth("Registered", { status: "False" })] } });
const keyless = anAgent({ status: { conditions: [] } });

describe("the next step of a delegation that was not asked for", () => {
  test.each<[string, Partial<DelegationInput>, string]>([
    ["is the request, when all is there", {}, "request"],
    ["is none once revoked", spec({ revoked: true }), "Revoked"],
    ["is none while suspended", spec({ suspend: true }), "Suspended"],
    ["is none in the second after its end", spec({ expiresAt: "2026-06-01T11:59:59Z" }), "Expired"],
    ["is the request in the second of its end", spec({ expiresAt: "2026-06-01T12:00:00Z" }), "request"],
    ["waits for a platform to exist", { platform: undefined }, "PlatformNotReady"],
    ["waits for a platform to be registered", { platform: unregistered }, "PlatformNotReady"],
    [
      "waits for a platform that is suspended",
      { platform: aPlatform({ spec: { suspend: true } }) },
      "PlatformNotReady",
    ],
    [
      "waits for no platform that is being deleted",
      { platform: aPlatform({ metadata: deleting }) },
      "PlatformNotReady",
    ],
    ["waits for an agent to exist", { agent: undefined }, "AgentNotReady"],
    ["waits for an agent's key", { agent: keyless }, "AgentNotReady"],
    ["waits for no agent that is being deleted", { agent: anAgent({ metadata: deleting }) }, "AgentNotReady"],
    [
      "needs an agent of the same platform",
      { agent: anAgent({ spec: { platformRef: { name: "x" } } }) },
      "AgentNotReady",
    ],
    ["needs scopes of the vocabulary", spec({ scopes: ["data:fly"] }), "InvalidScopes"],
    ["needs scopes within the ceiling", spec({ scopes: ["data:share"] }), "CeilingExceeded"],
    ["takes what a wildcard of the ceiling grants", spec({ scopes: ["payments:receive"] }), "request"],
    ["takes no sensitive scope of a wildcard", spec({ scopes: ["payments:authorize"] }), "CeilingExceeded"],
    ["names the platform before the agent", { platform: undefined, agent: undefined }, "PlatformNotReady"],
    ["names a bad scope before a wide one", spec({ scopes: ["data:share", "data:fly"] }), "InvalidScopes"],
    [
      "names the revocation before everything",
      { ...spec({ revoked: true, suspend: true }), platform: undefined },
      "Revoked",
    ],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });
});

describe("the next step of a delegation that was asked for", () => {
  test.each<[string, Partial<DelegationInput>, string]>([
    ["is to wait for a decision", { state: aState() }, "AwaitingApproval"],
    [
      "is to wait even without platform and agent",
      { state: aState(), platform: undefined, agent: undefined },
      "AwaitingApproval",
    ],
    ["is none while suspended", { state: aState(), ...spec({ suspend: true }) }, "Suspended"],
    ["is none once approved", { state: anApproval() }, "Active"],
    [
      "is none once approved, although suspended",
      { state: anApproval(), ...spec({ suspend: true }) },
      "Active",
    ],
    ["is none for one without an end", { state: anApproval({ expires_at: null }) }, "Active"],
    [
      "is none in the certificate's last second",
      { state: anApproval({ expires_at: "2026-06-01T12:00:00.000Z" }) },
      "Active",
    ],
    ["is none a second later", { state: anApproval({ expires_at: "2026-06-01T11:59:59.000Z" }) }, "Expired"],
    ["is none once denied", { state: aState({ status: "denied" }) }, "Denied"],
    ["is none once nobody decided", { state: aState({ status: "expired" }) }, "Expired"],
    [
      "is to wait in the last second before the end that was asked for",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T12:00:00Z" }) },
      "AwaitingApproval",
    ],
    [
      "is none when that end passed before anybody decided",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z" }) },
      "Expired",
    ],
    [
      "is none when it passed while suspended",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z", suspend: true }) },
      "Expired",
    ],
    [
      "is to withdraw a request whose end has passed",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z", revoked: true }) },
      "revoke",
    ],
    [
      "is none once approved with an end of its own",
      { state: anApproval(), ...spec({ expiresAt: "2026-06-01T11:59:59Z" }) },
      "Active",
    ],
    ["is none once withdrawn", { state: aState({ status: "withdrawn" }) }, "Revoked"],
    ["is none once revoked", { state: anApproval({ status: "revoked" }) }, "Revoked"],
    ["is to withdraw the request", { state: aState(), ...spec({ revoked: true }) }, "revoke"],
    ["is to revoke the certificate", { state: anApproval(), ...spec({ revoked: true }) }, "revoke"],
    [
      "is to revoke although suspended",
      { state: anApproval(), ...spec({ revoked: true, suspend: true }) },
      "revoke",
    ],
    [
      "is none when denied and revoked",
      { state: aState({ status: "denied" }), ...spec({ revoked: true }) },
      "Denied",
    ],
    [
      "is none when revoked twice",
      { state: anApproval({ status: "revoked" }), ...spec({ revoked: true }) },
      "Revoked",
    ],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });

  test("does not depend on a slash at the end of the console's address", () => {
    const messages = ["https://c.example.test", "https://c.example.test/"].map((consoleUrl) => {
      const next = nextStep(input({ state: aState(), consoleUrl }));
      return next.step === "report" ? next.verdict.message : "";
    });
    expect(messages[0]).toBe(messages[1]);
    expect(messages[0]).toContain("https://c.example.test/requests/req-1");
  });
});

describe("the end of a certificate", () => {
  test("comes after its last second, however the fractions lie", () => {
    expect(hasEnded("2026-06-01T12:00:00.000Z", new Date("2026-06-01T12:00:00.999Z"))).toBe(false);
    expect(hasEnded("2026-06-01T12:00:00.999Z", new Date("2026-06-01T12:00:01.000Z"))).toBe(true);
  });
});

describe("the status of a delegation", () => {
  const statusOf = (changes: Partial<DelegationInput>) => {
    const given = input(changes);
    const next = nextStep(given);
    if (next.step !== "report") throw new Error("nothing to report");
    return delegationStatus(given, next.verdict);
  };
  const condition = (changes: Partial<DelegationInput>, type: string) =>
    statusOf(changes).conditions.find((each) => each.type === type)?.status;

  test.each<[string, Partial<DelegationInput>, string]>([
    [
      "suspended before the request",
      spec({ suspend: true }),
      "Requested False, Approved Unknown, Denied Unknown, Issued Unknown, Revoked False",
    ],
    [
      "pending",
      { state: aState() },
      "Requested True, Approved Unknown, Denied Unknown, Issued Unknown, Revoked False",
    ],
    [
      "approved",
      { state: anApproval() },
      "Requested True, Approved True, Denied False, Issued True, Revoked False",
    ],
    [
      "denied",
      { state: aState({ status: "denied" }) },
      "Requested True, Approved False, Denied True, Issued False, Revoked False",
    ],
    [
      "expired unanswered",
      { state: aState({ status: "expired" }) },
      "Requested True, Approved False, Denied False, Issued False, Revoked False",
    ],
    [
      "pending although its end has passed",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z" }) },
      "Requested True, Approved False, Denied False, Issued False, Revoked False",
    ],
    [
      "withdrawn",
      { state: aState({ status: "withdrawn" }) },
      "Requested True, Approved False, Denied False, Issued False, Revoked True",
    ],
    [
      "revoked",
      { state: anApproval({ status: "revoked" }) },
      "Requested True, Approved True, Denied False, Issued True, Revoked True",
    ],
  ])("says of one that is %s what is known and what not", (_, changes, expected) => {
    const types = ["Requested", "Approved", "Denied", "Issued", "Revoked"];
    expect(types.map((type) => `${type} ${condition(changes, type)}`).join(", ")).toBe(expected);
  });

  test("leaves out what does not exist", () => {
    expect(Object.keys(statusOf({ state: aState() }))).toEqual([
      "observedGeneration",
      "requestID",
      "conditions",
    ]);
  });

  test("keeps a transition time while the status of the condition stays", () => {
    const before = truth("Ready", { status: "False", reason: "Suspended" });
    const object = aDelegation({ status: { conditions: [before, truth("Requested", { status: "False" })] } });
    const { conditions } = statusOf({ object, state: aState() });
    const at = (type: string) => conditions.find((each) => each.type === type)?.lastTransitionTime;
    expect(at("Ready")).toBe(before.lastTransitionTime);
    expect(at("Requested")).toBe(NOW.toISOString());
  });

  test("is the same for the same input, so that nothing is written", () => {
    const first = statusOf({ state: anApproval() });
    const object = aDelegation({ status: first });
    const later = new Date(NOW.getTime() + 60_000);
    expect(statusOf({ object, state: anApproval(), now: later })).toEqual(first);
  });
});

describe("the next step of a delegation that a person decided on in the cluster", () => {
  const decided = (requestedBy?: string, tenant: object = {}): Partial<DelegationInput> => ({
    state: aState(),
    binding: { source: "deputize-tenants", tenant: { accountEmail: "owner@example.test", ...tenant } },
    object: aDelegation({
      spec: requestedBy === undefined ? {} : { requestedBy },
      status: {
        approval: {
          decision: "Approved",
          approvedScopes: ["data:read"],
          approver: { username: "ann" },
          observedGeneration: 1,
        },
      },
    }),
  });

  test.each<[string, Partial<DelegationInput>, string]>([
    ["is to have it decided", decided(), "decide"],
    ["is to have it decided where nobody is bound to it", { ...decided(), binding: undefined }, "decide"],
    ["waits once that was asked for on this visit", { ...decided(), hasDecided: true }, "AwaitingApproval"],
    ["is none once it is approved", { ...decided(), state: anApproval() }, "Active"],
    ["is to have it decided by an approver of the binding", decided("ed", { approvers: ["ann"] }), "decide"],
    ["is none for another approver", decided("ed", { approvers: ["bob"] }), "ApproverNotLinked"],
    ["is to have it decided by another pair of eyes", decided("ed", { fourEyes: true }), "decide"],
    ["is none for who asked", decided("ann", { fourEyes: true }), "FourEyesRequired"],
    [
      "is none where nobody is said to have asked",
      decided(undefined, { fourEyes: true }),
      "FourEyesRequired",
    ],
    ["is to have it decided where one pair is enough", decided("ann", { fourEyes: false }), "decide"],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });
});
