import { describe, expect, test } from "vitest";
import {
  type LastSent,
  nextStep,
  type PlatformInput,
  REPEAT_MS,
} from "../../../src/operator/reconcile/platform_rules.ts";
import { SECRET_TYPE } from "../../../src/operator/reconcile/platform_secret.ts";
import type { Secret } from "../../../src/operator/resources.ts";
import { aPlatform, NOW, truth } from "../objects.ts";

const API_URL = "https://api.example.test";
const ACCOUNT = "owner@example.test";
const told = (changes: Partial<LastSent> = {}) => ({
  lastSent: { generation: 1, accountEmail: ACCOUNT, at: NOW, ...changes },
});
const ago = (ms: number) => new Date(NOW.getTime() - ms);

const secret = (changes: Partial<Secret> = {}): Secret => ({
  namespace: "default",
  name: "shop-credentials",
  type: SECRET_TYPE,
  labels: {},
  annotations: {
    "deputize.io/platform-uid": "uid-of-shop",
  },
  data: {
    api_key: "k",
    api_key_prefix: "dpz_1",
    connection_id: "c",
    platform_id: "p",
    signing_secret: "s",
    webhook_signing_secret: "w",
    base_url: API_URL,
  },
  version: "1",
  ...changes,
});
const state = {
  platform_id: "p",
  connection_id: "c",
  api_key_prefix: "dpz_1",
  api_key_issued_at: ago(3_600_000).toISOString(),
  rotation_request: null,
  removed: false,
};

/** Returns the input for a platform that is up to date, with these changes. */
const input = (changes: Partial<PlatformInput> = {}): PlatformInput => ({
  object: aPlatform(),
  binding: { source: "deputize-tenants", account: { accountEmail: ACCOUNT } },
  state,
  secrets: { current: secret() },
  ...told(),
  apiUrl: API_URL,
  now: NOW,
  agreed: NOW,
  ...changes,
});
const outcome = (changes: Partial<PlatformInput>): string => {
  const next = nextStep(input(changes));
  return next.step === "report" ? next.verdict.reason : next.step;
};
const withData = (changes: Record<string, string>) => ({
  current: secret({ data: { ...secret().data, ...changes } }),
});
const accepting = (scopes: string[], ceiling?: string[]) => ({
  object: aPlatform({ spec: { acceptedPrincipals: [{ humanID: "a".repeat(32), scopes }] } }),
  binding: { source: "deputize-tenants", account: { accountEmail: ACCOUNT, ...(ceiling && { ceiling }) } },
});
const marked = (annotations: Record<string, string>) =>
  secret({ annotations: { ...secret().annotations, ...annotations } });
const requesting = (text: string) => ({
  object: aPlatform({ metadata: { annotations: { "deputize.io/rotate-key": text } } }),
});
const rotated = (every: string) => ({ object: aPlatform({ spec: { keyRotation: { every } } }) });

describe("the reconciler of a platform", () => {
  test.each<[string, Partial<PlatformInput>, string]>([
    ["reports Active if nothing is left to do", {}, "Active"],
    ["registers a platform that the API does not know", { state: undefined, secrets: {} }, "register"],
    [
      "reports Suspended while suspended",
      { object: aPlatform({ spec: { suspend: true } }), state: undefined },
      "Suspended",
    ],
    [
      "reports Revoked once the platform was removed in the account",
      { state: { ...state, api_key_prefix: null, removed: true } },
      "Revoked",
    ],
    ["waits for a binding", { binding: undefined }, "NamespaceNotBound"],
    [
      "waits for a valid binding",
      { binding: { source: "deputize-tenants", fault: "not YAML" } },
      "NamespaceNotBound",
    ],
    [
      "reports unknown scopes",
      { object: aPlatform({ spec: { defaultAllowedScopes: ["urn:x"] } }) },
      "InvalidScopes",
    ],
    [
      "reports a ceiling that exceeds the namespace's ceiling",
      { binding: { source: "deputize-tenants", account: { accountEmail: ACCOUNT, ceiling: ["data:read"] } } },
      "CeilingExceeded",
    ],
    [
      "accepts a ceiling within the namespace's wildcards",
      {
        binding: {
          source: "deputize-tenants",
          account: { accountEmail: ACCOUNT, ceiling: ["data:read", "payments:*"] },
        },
      },
      "Active",
    ],
    [
      "reports accepted principals beyond the namespace's ceiling",
      accepting(["data:read", "custom:orders:refund"], ["data:*", "payments:*"]),
      "CeilingExceeded",
    ],
    [
      "accepts principals within the namespace's ceiling",
      accepting(["data:*", "custom:orders:refund"], ["data:*", "payments:*", "custom:orders:refund"]),
      "Active",
    ],
    ["accepts any principals if the namespace has no ceiling", accepting(["execute:code"]), "Active"],
    [
      "reports accepted scopes that are not in the vocabulary",
      accepting(["data:fly"], ["data:*"]),
      "InvalidScopes",
    ],
    [
      "reports a Secret of a different type",
      { secrets: { current: secret({ type: "Opaque" }) } },
      "SecretNotOwned",
    ],
    [
      "reports a Secret of a different platform",
      { secrets: { current: secret({ annotations: { "deputize.io/platform-uid": "x" } }) } },
      "SecretNotOwned",
    ],
    ["registers again after a restart of the operator", { lastSent: undefined }, "register"],
    ["registers again for a new spec", told({ generation: 0 }), "register"],
    ["registers again for a different account", told({ accountEmail: "former@example.test" }), "register"],
    [
      "reports Active shortly before the next registration is due",
      told({ at: ago(REPEAT_MS - 1) }),
      "Active",
    ],
    ["registers again when the next registration is due", told({ at: ago(REPEAT_MS) }), "register"],
    [
      "registers again while not Ready",
      { object: aPlatform({ status: { conditions: [truth("Ready", { status: "False" })] } }) },
      "register",
    ],
    ["registers again to restore the Secret", { secrets: {} }, "register"],
    [
      "registers again while the status has a former key",
      { object: aPlatform({ status: { apiKeyPrefix: "dpz_0" } }) },
      "register",
    ],
    [
      "registers again to repair an incomplete Secret",
      { secrets: withData({ signing_secret: "" }) },
      "register",
    ],
    [
      "registers again if the API has a different key",
      { state: { ...state, api_key_prefix: "dpz_2" } },
      "register",
    ],
    [
      "registers again to correct the base URL",
      { secrets: withData({ base_url: "https://old.example.test" }) },
      "register",
    ],
    [
      "registers again to add the verifier's ids",
      { state: { ...state, workspace_id: "account", verifier_id: "shop" } },
      "register",
    ],
    [
      "registers again to correct the verifier's name",
      {
        state: { ...state, workspace_id: "account", verifier_id: "shop" },
        secrets: withData({ workspace_id: "account", verifier_id: "bank" }),
      },
      "register",
    ],
    [
      "reports Active if the Secret has the verifier's ids",
      {
        state: { ...state, workspace_id: "account", verifier_id: "shop" },
        secrets: withData({ workspace_id: "account", verifier_id: "shop" }),
      },
      "Active",
    ],
    [
      "registers again to remove the former Secret",
      { secrets: { current: secret(), former: secret({ name: "old" }) } },
      "register",
    ],
    ["reports Active before the key is due for rotation", rotated("1h1s"), "Active"],
    ["registers again when the key is due for rotation", rotated("1h"), "register"],
    ["ignores the age of a key while the clocks disagree", { ...rotated("1h"), agreed: undefined }, "Active"],
    [
      "registers again for a request for a new key, also while the clocks disagree",
      { ...requesting("now"), agreed: undefined },
      "register",
    ],
    [
      "reports Active if the Secret states that the key is older than it is",
      { ...rotated("720h"), secrets: { current: marked({ "deputize.io/issued-at": "2001-01-01" }) } },
      "Active",
    ],
    ["registers again for a request for a new key", requesting("now"), "register"],
    [
      "reports Active if the API knows the request, although the Secret does not",
      { ...requesting("now"), state: { ...state, rotation_request: "now" } },
      "Active",
    ],
    [
      "reports Active if the Secret has the request, although the API does not",
      { ...requesting("now"), secrets: { current: marked({ "deputize.io/rotate-key": "now" }) } },
      "Active",
    ],
    [
      "reports Active if the API knows a request that is cut in the middle of a character",
      {
        ...requesting(`${"a".repeat(255)}😀`),
        state: { ...state, rotation_request: `${"a".repeat(255)}\ufffd` },
      },
      "Active",
    ],
    [
      "registers again for another request than the one that was carried out",
      { ...requesting("now"), state: { ...state, rotation_request: "before" } },
      "register",
    ],
  ])("%s", (_, changes, expected) => {
    expect(outcome(changes)).toBe(expected);
  });
});
