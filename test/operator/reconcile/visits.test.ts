import { describe, expect, test } from "vitest";
import type { ExternalState } from "../../../src/operator/api_client.ts";
import type { ApiFailure } from "../../../src/operator/api_transport.ts";
import type { Delegation, Platform } from "../../../src/operator/kinds.ts";
import type { Visit } from "../../../src/operator/queue.ts";
import { conditionOf } from "../../../src/operator/reconcile/conditions.ts";
import { SECRET_TYPE } from "../../../src/operator/reconcile/platform_secret.ts";
import type { Secret } from "../../../src/operator/resources.ts";
import { aDelegation, anAgent, anApproval, aPlatform, aState, NOW, truth } from "../objects.ts";
import { visitWorld } from "./visit_world.ts";

const KEY = { api_key_prefix: "dpz_1", connection_id: "k1", platform_id: "p1" };
const IN_API = { ...KEY, api_key_issued_at: "2026-06-01T11:00:00.000Z", rotation_request: null };
const REGISTERED = {
  ...IN_API,
  default_allowed_scopes: ["data:read"],
  callback_url: null,
  credentials: null,
};

const refused = (code: string): ApiFailure => ({ kind: "refused", code, message: "because" }) as ApiFailure;
const unavailable: ApiFailure = { kind: "unavailable", message: "away" };
const filed = (reason: string, changes: Parameters<typeof aDelegation>[0] = {}): Delegation =>
  aDelegation({
    ...changes,
    status: {
      requestID: "req-1",
      observedGeneration: 1,
      conditions: [truth("Ready", { status: "False", reason })],
      ...changes.status,
    },
  });
const approval = { decision: "Approved", approver: { username: "jane" }, observedGeneration: 1 } as const;

describe("the next visit to a Delegation", () => {
  test.each<[string, Delegation, ExternalState, Visit]>([
    [
      "starts when the last tenth of its lifetime starts",
      filed("Active"),
      { delegation: anApproval() },
      { afterMs: 48 * 60_000 },
    ],
    [
      "starts after the second of its expiry has passed",
      filed("Active"),
      { delegation: anApproval({ expires_at: "2026-06-01T12:05:00.700Z" }) },
      { afterMs: 301_000 },
    ],
    [
      "starts after the requested expiry of an undecided request",
      filed("AwaitingApproval", { spec: { expiresAt: "2026-06-01T12:10:00.000Z" } }),
      { delegation: aState() },
      { afterMs: 601_000 },
    ],
    ["has no time without an expiry", filed("Active"), { delegation: anApproval({ expires_at: null }) }, {}],
    ["has no time without a decision", filed("AwaitingApproval"), { delegation: aState() }, {}],
    [
      "has no time after the expiry",
      filed("Active"),
      { delegation: anApproval({ expires_at: "2026-06-01T11:59:59.000Z" }) },
      {},
    ],
  ])("%s", async (_, object, state, expected) => {
    expect(await visitWorld({ state }).visit(object)).toEqual(expected);
  });

  test.each<[string, Delegation, ApiFailure, Visit]>([
    ["as soon as possible", filed("Active"), unavailable, { retry: true, urgent: false }],
    [
      "not before the time that the API requests",
      filed("Active"),
      { ...unavailable, retryAfterMs: 7_000 },
      { retry: true, urgent: false, notBeforeMs: 7_000 },
    ],
    [
      "urgently if people wait for a decision",
      filed("AwaitingApproval"),
      unavailable,
      { retry: true, urgent: true },
    ],
    [
      "urgently if it must be revoked",
      filed("Active", { spec: { revoked: true } }),
      unavailable,
      { retry: true, urgent: true },
    ],
    [
      "if the API refuses the token",
      filed("Active"),
      { kind: "unauthorized", message: "no" },
      { retry: true, urgent: false },
    ],
  ])("repeats a failed one %s", async (_, object, failure, expected) => {
    expect(await visitWorld({ failure }).visit(object)).toEqual(expected);
  });

  test.each<[string, Visit, string]>([
    ["approver_not_linked", { afterMs: 30_000 }, "ApproverNotLinked"],
    ["four_eyes_required", { afterMs: 30_000 }, "FourEyesRequired"],
    ["approval_policy_missing", { afterMs: 30_000 }, "ApprovalPolicyMissing"],
    ["vault_unavailable", { retry: true, urgent: true }, "Issuing"],
    ["invalid_constraint", {}, "InvalidSpec"],
  ])("follows when the API answers a decision in the cluster with %s", async (code, expected, reason) => {
    const found = visitWorld({
      state: { delegation: aState() },
      answers: { decideDelegation: { failure: refused(code) } },
    });
    expect(await found.visit(filed("AwaitingApproval", { status: { approval } }))).toEqual(expected);
    expect([found.calls, found.reason()]).toEqual([["decideDelegation"], reason]);
  });
});

describe("a visit to a Delegation", () => {
  test("asks once for a decision in the cluster, and reports the certificate", async () => {
    const found = visitWorld({
      state: { delegation: aState() },
      answers: { decideDelegation: { value: anApproval() } },
    });
    await found.visit(filed("AwaitingApproval", { status: { approval } }));
    expect([found.calls, found.reason()]).toEqual([["decideDelegation"], "Active"]);
  });

  test("gives up after three calls that have no effect", async () => {
    const found = visitWorld({
      state: { delegation: anApproval() },
      answers: { revokeDelegation: { value: anApproval() } },
    });
    const revoked = filed("Active", { spec: { revoked: true } });
    await expect(found.visit(revoked)).rejects.toThrow("had no effect");
    expect(found.calls).toHaveLength(3);
  });

  test("writes nothing after a newer leader has taken over", async () => {
    const found = visitWorld({ failure: { kind: "superseded", message: "newer" } });
    expect((await found.visit(filed("ApiUnavailable"))).retry).toBe(true);
    expect(found.statuses).toEqual([]);
  });

  test("keeps the status during an outage unless the spec is new", async () => {
    const found = visitWorld({ failure: unavailable });
    await found.visit(filed("Active"));
    expect(found.statuses).toEqual([]);
    await found.visit(filed("Active", { metadata: { generation: 2 } }));
    expect(found.reason()).toBe("ApiUnavailable");
  });

  test("announces once that its certificate expires soon, and withdraws the condition when it ends", async () => {
    const found = visitWorld({ state: { delegation: anApproval() } });
    found.clock.set(new Date("2026-06-01T12:50:00.000Z"));
    await found.visit(filed("Active"));
    const status = found.statuses.at(-1) as Delegation["status"];
    expect(conditionOf(status, "ExpiresSoon")?.status).toBe("True");
    await found.visit(aDelegation({ status }));
    expect(found.events.map(({ reason }) => reason)).toEqual(["ExpiresSoon"]);
    const ended = visitWorld({ state: { delegation: anApproval({ status: "revoked" }) } });
    await ended.visit(aDelegation({ status }));
    expect(conditionOf(ended.statuses.at(-1) ?? {}, "ExpiresSoon")).toBeUndefined();
  });
});

describe("a visit to a Platform", () => {
  const secret = (name: string, annotations: Record<string, string> = {}): Secret => ({
    namespace: "default",
    name,
    type: SECRET_TYPE,
    labels: {},
    annotations: {
      "deputize.io/platform-uid": "uid-of-shop",
      "deputize.io/issued-at": "2026-06-01T11:00:00.000Z",
      "deputize.io/credentials-version": "1",
      ...annotations,
    },
    data: {
      ...KEY,
      api_key: "k",
      signing_secret: "s",
      webhook_signing_secret: "w",
      base_url: "https://api.example.test",
    },
    version: "1",
  });
  const foreign = { "deputize.io/platform-uid": "other", "deputize.io/platform": "other" };
  const registered = { platform: { ...IN_API, removed: false } };
  const current = { state: registered, answers: { putPlatform: { value: REGISTERED } } };
  const shop = (changes: Parameters<typeof aPlatform>[0] = {}): Platform =>
    aPlatform({ ...changes, status: { apiKeyPrefix: "dpz_1", ...changes.status } });
  const renamed = shop({
    spec: { credentialsSecretName: "new" },
    status: { credentialsSecretName: "shop-credentials" },
  });

  test("sends an unchanged Platform once in ten minutes, and again after a failure", async () => {
    const found = visitWorld({ ...current, secrets: [secret("shop-credentials")] });
    await found.visit(shop());
    await found.visit(shop());
    found.clock.advance(599);
    await found.visit(shop());
    expect(found.calls).toEqual(["putPlatform"]);
    found.clock.advance(1);
    await found.visit(shop());
    expect(found.calls).toHaveLength(2);
    const failing = visitWorld({
      ...current,
      answers: { putPlatform: { failure: unavailable } },
      secrets: [secret("shop-credentials")],
    });
    expect([await failing.visit(shop()), await failing.visit(shop())]).toEqual([
      { retry: true },
      { retry: true },
    ]);
    expect(failing.calls).toHaveLength(2);
  });

  test.each([
    ["removes the Platform's own Secret under its former name", {}, ["new"]],
    ["keeps somebody else's Secret under the Platform's former name", foreign, ["shop-credentials", "new"]],
  ])("%s", async (_, annotations, left) => {
    const credentials = { api_key: "k", signing_secret: "s", webhook_signing_secret: "w" };
    const found = visitWorld({
      state: registered,
      answers: { putPlatform: { value: { ...REGISTERED, credentials } } },
      secrets: [secret("shop-credentials", annotations)],
    });
    await found.visit(renamed);
    expect([...found.secrets.keys()]).toEqual(left);
    expect(found.calls).toEqual(["putPlatform", "acknowledgeCredentials"]);
  });

  test("keeps the deleted Platform until the connections of its customers have ended", async () => {
    const metadata = { deletionTimestamp: NOW.toISOString() };
    const deleted = { spec: { ...renamed.spec, deletionPolicy: "Delete" as const }, status: renamed.status };
    const answers = { removePlatform: { value: { removed: false } } };
    const found = visitWorld({ answers, secrets: [secret("new")], others: [] });
    const visit = await found.visit(shop({ ...deleted, metadata }));
    expect(visit).toEqual({ retry: true, urgent: true });
    expect(found.calls).toEqual(["removePlatform"]);
    expect([...found.secrets.keys()]).toEqual(["new"]);
  });

  test("removes both of the deleted Platform's own Secrets, and keeps somebody else's", async () => {
    const deleted = { spec: { ...renamed.spec, deletionPolicy: "Delete" as const }, status: renamed.status };
    const metadata = { deletionTimestamp: NOW.toISOString() };
    const found = visitWorld({ secrets: [secret("shop-credentials"), secret("new")], others: [] });
    await found.visit(shop({ ...deleted, metadata }));
    expect([...found.secrets.keys()]).toEqual([]);
    expect(found.calls).toEqual(["removePlatform", "setFinalizer"]);
    const other = visitWorld({
      secrets: [secret("shop-credentials", foreign), secret("new", foreign)],
      others: [],
    });
    await other.visit(shop({ ...deleted, metadata }));
    expect([...other.secrets.keys()]).toEqual(["shop-credentials", "new"]);
  });

  test("reports the customers of an unchanged Platform without sending it again", async () => {
    const state = { ...registered.platform, publish_state: "draft", customers: 0 };
    const found = visitWorld({
      ...current,
      secrets: [secret("shop-credentials")],
      state: { platform: state },
    });
    await found.visit(shop());
    Object.assign(state, { publish_state: "published", customers: 3 });
    await found.visit(shop());
    expect(found.statuses.at(-1)).toMatchObject({ publishState: "published", customers: 3 });
    expect(found.calls).toEqual(["putPlatform"]);
  });

  test("keeps the number of customers in the status while a former version of the API answers", async () => {
    const found = visitWorld({ ...current, secrets: [secret("shop-credentials")] });
    await found.visit(shop({ status: { publishState: "published", customers: 3 } }));
    expect(found.statuses.at(-1)).toMatchObject({ publishState: "published", customers: 3 });
  });

  test("plans the next visit for the time of the next rotation", async () => {
    const found = visitWorld({ ...current, secrets: [secret("shop-credentials")] });
    const rotating = shop({ spec: { keyRotation: { every: "24h" } } });
    expect(await found.visit(rotating)).toEqual({ afterMs: 23 * 3_600_000 });
    expect(await found.visit(rotating)).toEqual({ afterMs: 23 * 3_600_000 });
  });

  test.each<[string, ApiFailure, Visit]>([
    ["platform_limit", refused("platform_limit"), { afterMs: 30_000 }],
    ["namespace_not_bound", refused("namespace_not_bound"), { afterMs: 5_000 }],
    ["onboarding_incomplete", refused("onboarding_incomplete"), { afterMs: 5_000 }],
    ["adoption_not_confirmed", refused("adoption_not_confirmed"), { afterMs: 30_000 }],
    ["vault_unavailable", refused("vault_unavailable"), { retry: true }],
    ["external_conflict", refused("external_conflict"), {}],
    [
      "action_limited",
      { kind: "refused", code: "action_limited", message: "because", retryAfterMs: 70_000 },
      { afterMs: 70_000 },
    ],
    ["Retry-After", { ...unavailable, retryAfterMs: 9_000 }, { retry: true, notBeforeMs: 9_000 }],
  ])("plans the next visit after the API answered %s", async (_, failure, expected) => {
    const found = visitWorld({ state: {}, answers: { putPlatform: { failure } } });
    expect(await found.visit(shop())).toEqual(expected);
  });
});

describe("a visit to an Agent", () => {
  test.each<[string, ApiFailure, Visit]>([
    ["adoption_not_confirmed", refused("adoption_not_confirmed"), { afterMs: 30_000 }],
    ["not_found", refused("not_found"), { retry: true }],
    ["Retry-After", { ...unavailable, retryAfterMs: 9_000 }, { retry: true, notBeforeMs: 9_000 }],
  ])("plans the next visit after the API answered %s", async (_, failure, expected) => {
    const found = visitWorld({ state: {}, answers: { putAgent: { failure } } });
    expect(await found.visit(anAgent())).toEqual(expected);
  });
});
