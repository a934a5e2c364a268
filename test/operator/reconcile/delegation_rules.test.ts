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
const statusOf = (changes: Partial<DelegationInput>) => {
  const given = input(changes);
  const next = nextStep(given);
  if (next.step !== "report") throw new Error("nothing to report");
  return delegationStatus(given, next.verdict);
};
const spec = (changes: object) => ({ object: aDelegation({ spec: changes }) });
const deleting = { deletionTimestamp: "2026-06-01T11:59:00.000Z" };
const unregistered = aPlatform({ status: { conditions: [truth("Registered", { status: "False" })] } });
const keyless = anAgent({ status: { conditions: [] } });

describe("the reconciler of a delegation without a request", () => {
  test.each<[string, Partial<DelegationInput>, string]>([
    ["requests approval if nothing is missing", {}, "request"],
    ["reports Revoked if the spec revokes the delegation", spec({ revoked: true }), "Revoked"],
    ["reports Suspended while suspended", spec({ suspend: true }), "Suspended"],
    [
      "reports Expired one second after the requested expiry",
      spec({ expiresAt: "2026-06-01T11:59:59Z" }),
      "Expired",
    ],
    [
      "requests approval in the second of the requested expiry",
      spec({ expiresAt: "2026-06-01T12:00:00Z" }),
      "request",
    ],
    ["waits until the platform exists", { platform: undefined }, "PlatformNotReady"],
    ["waits until the platform is registered", { platform: unregistered }, "PlatformNotReady"],
    [
      "waits while the platform is suspended",
      { platform: aPlatform({ spec: { suspend: true } }) },
      "PlatformNotReady",
    ],
    [
      "waits for a new platform if the former one is being deleted",
      { platform: aPlatform({ metadata: deleting }) },
      "PlatformNotReady",
    ],
    ["waits until the agent exists", { agent: undefined }, "AgentNotReady"],
    ["waits until the agent has a key", { agent: keyless }, "AgentNotReady"],
    [
      "waits for a new agent if the former one is being deleted",
      { agent: anAgent({ metadata: deleting }) },
      "AgentNotReady",
    ],
    [
      "waits for an agent of the same platform",
      { agent: anAgent({ spec: { platformRef: { name: "x" } } }) },
      "AgentNotReady",
    ],
    ["reports unknown scopes", spec({ scopes: ["data:fly"] }), "InvalidScopes"],
    ["reports scopes beyond the ceiling", spec({ scopes: ["data:share"] }), "CeilingExceeded"],
    ["accepts scopes of a wildcard in the ceiling", spec({ scopes: ["payments:receive"] }), "request"],
    [
      "reports sensitive scopes that only a wildcard contains",
      spec({ scopes: ["payments:authorize"] }),
      "CeilingExceeded",
    ],
    [
      "reports a missing platform before a missing agent",
      { platform: undefined, agent: undefined },
      "PlatformNotReady",
    ],
    [
      "reports an unknown scope before one beyond the ceiling",
      spec({ scopes: ["data:share", "data:fly"] }),
      "InvalidScopes",
    ],
    [
      "reports the revocation before everything else",
      { ...spec({ revoked: true, suspend: true }), platform: undefined },
      "Revoked",
    ],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });
});

describe("the reconciler of a delegation with a request", () => {
  test.each<[string, Partial<DelegationInput>, string]>([
    ["waits for a decision", { state: aState() }, "AwaitingApproval"],
    [
      "waits for a decision even without platform and agent",
      { state: aState(), platform: undefined, agent: undefined },
      "AwaitingApproval",
    ],
    ["reports Suspended while suspended", { state: aState(), ...spec({ suspend: true }) }, "Suspended"],
    ["reports Active once approved", { state: anApproval() }, "Active"],
    [
      "reports Active once approved, even while suspended",
      { state: anApproval(), ...spec({ suspend: true }) },
      "Active",
    ],
    [
      "reports Active for a certificate that does not expire",
      { state: anApproval({ expires_at: null }) },
      "Active",
    ],
    [
      "reports Active in the certificate's last second",
      { state: anApproval({ expires_at: "2026-06-01T12:00:00.000Z" }) },
      "Active",
    ],
    [
      "reports Expired one second after the certificate's expiry",
      { state: anApproval({ expires_at: "2026-06-01T11:59:59.000Z" }) },
      "Expired",
    ],
    ["reports Denied once denied", { state: aState({ status: "denied" }) }, "Denied"],
    ["reports Expired if nobody decided in time", { state: aState({ status: "expired" }) }, "Expired"],
    [
      "waits for a decision in the second of the requested expiry",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T12:00:00Z" }) },
      "AwaitingApproval",
    ],
    [
      "reports Expired if the requested expiry passed before a decision",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z" }) },
      "Expired",
    ],
    [
      "reports Expired if the requested expiry passed while suspended",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z", suspend: true }) },
      "Expired",
    ],
    [
      "withdraws a revoked request whose expiry has passed",
      { state: aState(), ...spec({ expiresAt: "2026-06-01T11:59:59Z", revoked: true }) },
      "revoke",
    ],
    [
      "reports Active if the certificate expires later than the spec requests",
      { state: anApproval(), ...spec({ expiresAt: "2026-06-01T11:59:59Z" }) },
      "Active",
    ],
    ["reports Revoked once withdrawn", { state: aState({ status: "withdrawn" }) }, "Revoked"],
    [
      "reports Revoked once the certificate is revoked",
      { state: anApproval({ status: "revoked" }) },
      "Revoked",
    ],
    [
      "withdraws a pending request when the spec revokes the delegation",
      { state: aState(), ...spec({ revoked: true }) },
      "revoke",
    ],
    [
      "revokes the certificate when the spec revokes the delegation",
      { state: anApproval(), ...spec({ revoked: true }) },
      "revoke",
    ],
    [
      "revokes even while suspended",
      { state: anApproval(), ...spec({ revoked: true, suspend: true }) },
      "revoke",
    ],
    [
      "reports Denied if the spec is revoked after the denial",
      { state: aState({ status: "denied" }), ...spec({ revoked: true }) },
      "Denied",
    ],
    [
      "reports Revoked if the certificate is already revoked",
      { state: anApproval({ status: "revoked" }), ...spec({ revoked: true }) },
      "Revoked",
    ],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });

  test("links to the console correctly if the console's URL ends with a slash", () => {
    const messages = ["https://c.example.test", "https://c.example.test/"].map((consoleUrl) => {
      const next = nextStep(input({ state: aState(), consoleUrl }));
      return next.step === "report" ? next.verdict.message : "";
    });
    expect(messages[0]).toBe(messages[1]);
    expect(messages[0]).toContain("https://c.example.test/requests/req-1");
  });

  test("links to the page of the account that decides", () => {
    const next = nextStep(
      input({ state: aState({ account_id: "a-1" }), consoleUrl: "https://c.example.test" }),
    );
    expect(next).toMatchObject({
      verdict: { message: expect.stringContaining("https://c.example.test/for/a-1/requests/req-1") },
    });
  });
});

describe("a certificate", () => {
  test("expires when its last second is over, regardless of fractions of a second", () => {
    expect(hasEnded("2026-06-01T12:00:00.000Z", new Date("2026-06-01T12:00:00.999Z"))).toBe(false);
    expect(hasEnded("2026-06-01T12:00:00.999Z", new Date("2026-06-01T12:00:01.000Z"))).toBe(true);
  });
});

describe("the status of a delegation", () => {
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
      "expired without a decision",
      { state: aState({ status: "expired" }) },
      "Requested True, Approved False, Denied False, Issued False, Revoked False",
    ],
    [
      "pending although its expiry has passed",
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
  ])("contains the right conditions if the delegation is %s", (_, changes, expected) => {
    const types = ["Requested", "Approved", "Denied", "Issued", "Revoked"];
    expect(types.map((type) => `${type} ${condition(changes, type)}`).join(", ")).toBe(expected);
  });

  test("omits absent fields", () => {
    expect(Object.keys(statusOf({ state: aState() }))).toEqual([
      "observedGeneration",
      "requestID",
      "conditions",
    ]);
  });

  test("keeps a transition time while the condition's status remains", () => {
    const before = truth("Ready", { status: "False", reason: "Suspended" });
    const object = aDelegation({ status: { conditions: [before, truth("Requested", { status: "False" })] } });
    const { conditions } = statusOf({ object, state: aState() });
    const at = (type: string) => conditions.find((each) => each.type === type)?.lastTransitionTime;
    expect(at("Ready")).toBe(before.lastTransitionTime);
    expect(at("Requested")).toBe(NOW.toISOString());
  });

  test("equals the former status for the same input, so that nothing is written", () => {
    const first = statusOf({ state: anApproval() });
    const object = aDelegation({ status: first });
    const later = new Date(NOW.getTime() + 60_000);
    expect(statusOf({ object, state: anApproval(), now: later })).toEqual(first);
  });
});

describe("the reconciler of a delegation whose request the API no longer knows", () => {
  const withdrawn = aState({ status: "withdrawn" });
  const revoking = { spec: { revoked: true } };

  test.each<[string, Partial<DelegationInput>]>([
    ["an expired request", { state: aState({ status: "expired" }) }],
    ["a withdrawn request", { state: withdrawn }],
    ["a request that the spec revokes", { object: aDelegation(revoking), state: withdrawn }],
  ])("keeps the status of %s", (_, changes) => {
    const status = statusOf(changes);
    const object = aDelegation({ ...(changes.object === undefined ? {} : revoking), status });
    expect(statusOf({ object, state: undefined })).toEqual(status);
  });

  test("reports ExternalMissing for a pending request and for a certificate", () => {
    for (const state of [aState(), anApproval(), anApproval({ status: "revoked" })]) {
      expect(outcome({ object: aDelegation({ status: statusOf({ state }) }) })).toBe("ExternalMissing");
    }
  });
});

describe("the reconciler of a delegation that was decided in the cluster", () => {
  const decided = (requestedBy?: string, account: object = {}): Partial<DelegationInput> => ({
    state: aState(),
    binding: { source: "deputize-tenants", account: { accountEmail: "owner@example.test", ...account } },
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
    ["asks the API to decide", decided(), "decide"],
    ["asks the API to decide without a binding", { ...decided(), binding: undefined }, "decide"],
    [
      "waits if this visit has already asked the API to decide",
      { ...decided(), hasDecided: true },
      "AwaitingApproval",
    ],
    ["reports Active once approved", { ...decided(), state: anApproval() }, "Active"],
    [
      "asks the API to decide if the approver is in the binding",
      decided("ed", { approvers: ["ann"] }),
      "decide",
    ],
    [
      "reports an approver who is not in the binding",
      decided("ed", { approvers: ["bob"] }),
      "ApproverNotLinked",
    ],
    [
      "asks the API to decide if approver and requester are different people",
      decided("ed", { fourEyes: true }),
      "decide",
    ],
    ["reports an approver who is the requester", decided("ann", { fourEyes: true }), "FourEyesRequired"],
    [
      "reports a missing requester if two people are required",
      decided(undefined, { fourEyes: true }),
      "FourEyesRequired",
    ],
    ["asks the API to decide if one person suffices", decided("ann", { fourEyes: false }), "decide"],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });

  test.each([
    ["two people are required", { fourEyes: true }, undefined, true],
    ["two people are required and the requester is known", { fourEyes: true }, "ed", false],
    ["one person suffices", {}, undefined, false],
  ])(
    "reports before any decision that nobody can approve it in the cluster: %s",
    (_, bound, requestedBy, noted) => {
      const next = nextStep(
        input({
          object: aDelegation({ spec: requestedBy === undefined ? {} : { requestedBy } }),
          state: aState(),
          binding: { source: "deputize-tenants", account: { accountEmail: "o@example.test", ...bound } },
        }),
      );
      const message = next.step === "report" ? next.verdict.message : "";
      expect(message).toContain("The account's owner decides at https://");
      expect(message.includes("deputize-tenants requires two people and spec.requestedBy names nobody")).toBe(
        noted,
      );
    },
  );
});
