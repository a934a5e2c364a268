import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { DelegationPolicy } from "../../../keyvault/config.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createDelegationSigning, type DelegationRequest } from "../../../keyvault/sign/delegation.ts";
import { delegationSignBytes } from "../../../src/protocol/documents/certificate.ts";
import { coversScopes } from "../../../src/protocol/documents/scopes.ts";
import {
  generateSeeds,
  importSeeds,
  keyId,
  publicKeyOf,
  verifyHybrid,
} from "../../../src/protocol/keys/hybrid.ts";
import { API, startVault, type TestVault } from "../fixture.ts";
import { type Change, delegationRequest, subject } from "./delegation_request.ts";

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;
let others: Record<
  "reader" | "idle" | "plain" | "filer" | "barred" | "foreign" | "any" | "refunder" | "literal",
  CreatedKey
>;
let now: number;

const makeRoot = (ceiling?: string[], tenant = "acc-1") =>
  vault.makeKey({ tenant, purpose: "account_root", label: "root", ...(ceiling && { ceiling }) });

beforeAll(async () => {
  vault = await startVault();
  root = await makeRoot();
  agent = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" });
  others = {
    reader: await vault.makeAgent("acc-1", ["data:read"]),
    idle: await vault.makeAgent("acc-1", []),
    plain: await makeRoot(),
    filer: await makeRoot(["files:read"]),
    barred: await makeRoot([]),
    foreign: await vault.makeAgent("acc-2"),
    any: await makeRoot(["custom:*"], "acc-custom"),
    refunder: await vault.makeAgent("acc-custom", REFUND),
    literal: await vault.makeAgent("acc-custom", ["custom:*"]),
  };
});
afterAll(() => vault.close());
beforeEach(() => {
  now = vault.now();
});

type Order = Change & { keyId?: string; policy?: DelegationPolicy };

const OPEN: DelegationPolicy = { ceiling: undefined, externalSubjects: true };
const REFUND = ["custom:orders:refund"];

function sign({ keyId = root.key_id, policy = OPEN, certificate, approval, ...order }: Order = {}) {
  const request = delegationRequest(root, agent, now, {
    ...order,
    certificate: { expires_at: now + 3600, ...certificate },
    approval: { ceiling: ["data:read", "files:read"], ...approval },
  });
  return createDelegationSigning({ ...vault.parts(), policy })(API, keyId, request);
}

const lastRecord = async () =>
  (
    await vault.home.sql(
      "select caller, role, key_id, purpose, statement, digest, outcome, detail from audit order by seq desc limit 1",
    )
  )[0];

test("signing returns a certificate with the issuer's key and a valid signature of each half, and records the certificate's hash", async () => {
  const signed = await sign({ certificate: { cert_id: "cert-1" } });
  if (isRefusal(signed)) throw new Error(signed.message);
  expect(signed.issuer_pub_key).toEqual(root.public_key);
  expect(await verifyHybrid(root.public_key, delegationSignBytes(signed), signed.signature)).toBe(true);
  const digest = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(delegationSignBytes(signed))));
  expect(await lastRecord()).toEqual({
    caller: "api",
    role: "api",
    key_id: root.key_id,
    purpose: "account_root",
    statement: "delegation",
    digest,
    outcome: "granted",
    detail: { cert_id: "cert-1", subject_id: agent.key_id, request_id: "req-1", approved_by: "user-1" },
  });
});

const cert = (certificate: Partial<DelegationRequest>): Order => ({ certificate });
const approved = (ceiling: string[], ...scope: string[]): Order => ({
  certificate: scope.length > 0 ? { scope } : {},
  approval: { ceiling },
});
const by = ({ key_id }: CreatedKey, certificate: Partial<DelegationRequest> = {}): Order => ({
  keyId: key_id,
  certificate: { issuer_id: key_id, ...certificate },
});
const to = (key: CreatedKey, ...scope: string[]): Order => ({
  certificate: { ...subject(key), ...(scope.length > 0 && { scope }) },
  approval: { ceiling: ["data:read", "data:share"] },
});
const under = (ceiling: string[], ...scope: string[]): Order => ({
  ...approved(scope, ...scope),
  policy: { ...OPEN, ceiling },
});
const custom = (key: CreatedKey, scope: string[]): Order => ({
  ...by(others.any, { ...subject(key), scope }),
  approval: { ceiling: [...scope, "data:read"] },
  tenant: "acc-custom",
});
const stranger = publicKeyOf(importSeeds(generateSeeds()));
const external = (change: Order = {}): Order => ({
  ...change,
  certificate: { ...subject({ key_id: keyId(stranger), public_key: stranger }), ...change.certificate },
  approval: { external_subject: true, ...change.approval },
});

test.each<[outcome: string, what: string, order: () => Order]>([
  ["signs", "60 s after it was issued", () => cert({ issued_at: now - 60 })],
  ["policy_violation", "61 s after it was issued", () => cert({ issued_at: now - 61 })],
  ["signs", "60 s before it is issued", () => cert({ issued_at: now + 60 })],
  ["policy_violation", "61 s before it is issued", () => cert({ issued_at: now + 61 })],
  ["signs", "in its last second", () => cert({ issued_at: now - 10, expires_at: now })],
  ["policy_violation", "a second after its end", () => cert({ issued_at: now - 10, expires_at: now - 1 })],
  ["signs", "with all scopes that are approved", () => cert({ scope: ["data:read", "files:read"] })],
  [
    "policy_violation",
    "with a scope that is not approved",
    () => cert({ scope: ["data:read", "files:write"] }),
  ],
  ["policy_violation", "with an empty approval", () => approved([])],
  ["signs", "with an approved data:*", () => approved(["data:*"], "data:*")],
  [
    "policy_violation",
    "with data:delete where data:* is approved",
    () => approved(["data:*"], "data:delete"),
  ],
  ["signs", "to an agent within its ceiling", () => to(others.reader)],
  ["policy_violation", "to an agent beyond its ceiling", () => to(others.reader, "data:share")],
  ["policy_violation", "to an agent whose ceiling is empty", () => to(others.idle)],
  ["signs", "by a root within its ceiling", () => by(others.filer, { scope: ["files:read"] })],
  ["policy_violation", "by a root beyond its ceiling", () => by(others.filer)],
  ["policy_violation", "by a root whose ceiling is empty", () => by(others.barred)],
  ["signs", "within the vault's ceiling", () => under(["data:*"], "data:read")],
  ["policy_violation", "beyond the vault's ceiling", () => under(["data:*"], "files:read")],
  ["policy_violation", "in a vault whose ceiling is empty", () => under([], "data:read")],
  ["signs", "of a custom scope under the vault's custom:*", () => under(["custom:*"], ...REFUND)],
  ["policy_violation", "of a custom scope under custom:orders", () => under(["custom:orders"], ...REFUND)],
  [
    "policy_violation",
    "of a custom scope where custom:* is approved",
    () => approved(["custom:*"], ...REFUND),
  ],
  ["signs", "of a root's custom:* to an agent with the scope", () => custom(others.refunder, REFUND)],
  [
    "policy_violation",
    "of another scope by a root of custom:*",
    () => custom(others.refunder, ["data:read"]),
  ],
  ["policy_violation", "of a custom scope to an agent of custom:*", () => custom(others.literal, REFUND)],
  ["key_not_found", "by another tenant's key", () => ({ tenant: "acc-2" })],
  ["key_not_found", "by a missing key", () => ({ keyId: "0".repeat(32) })],
  ["purpose_mismatch", "by an agent's key", () => by(agent)],
  [
    "purpose_mismatch",
    "by the vault's own key",
    () => ({ keyId: vault.vault.service.keyId, tenant: "vault" }),
  ],
  ["policy_violation", "that names another issuer", () => cert({ issuer_id: others.filer.key_id })],
  ["policy_violation", "to a root", () => to(others.plain)],
  ["policy_violation", "to another tenant's agent", () => to(others.foreign)],
  ["policy_violation", "to another tenant's agent as external", () => external(to(others.foreign))],
  ["invalid_request", "to an agent by another public key", () => cert({ subject_pub_key: root.public_key })],
  ["policy_violation", "to a key outside the vault", () => ({ ...external(), approval: {} })],
  ["signs", "to a key outside the vault, marked external", () => external()],
  ["policy_violation", "to one beyond the approval", () => external(cert({ scope: ["files:write"] }))],
  [
    "policy_violation",
    "to one from a vault that forbids it",
    () => external({ policy: { ...OPEN, externalSubjects: false } }),
  ],
  ["invalid_request", "of another version", () => cert({ version: 2 })],
  ["invalid_request", "without a scope", () => cert({ scope: [] })],
  ["invalid_request", "with an unknown scope", () => cert({ scope: ["data:fly"] })],
  ["invalid_request", "with a scope of an unknown kind", () => cert({ scope: ["x-own:thing"] })],
  ["invalid_request", "with an id of another key", () => cert({ subject_id: "0".repeat(32) })],
  ["invalid_request", "that ends when it begins", () => cert({ expires_at: now })],
  [
    "invalid_request",
    "with a path that leads up",
    () => cert({ constraints: [{ type: "resource_path", resource_id: "r", path_prefix: "../up" }] }),
  ],
  [
    "invalid_request",
    "with a constraint that has an unknown field",
    () => cert({ constraints: [{ type: "max_amount", max_amount: 5, currency: "EUR", extra: 1 } as never] }),
  ],
])("signing has the outcome %s for a certificate %s, and records this outcome", async (outcome, _, order) => {
  const signed = await sign(order());
  expect(isRefusal(signed) ? signed.refused : "signs").toBe(outcome);
  const isSigned = outcome === "signs";
  expect(await lastRecord()).toMatchObject({
    statement: "delegation",
    outcome: isSigned ? "granted" : outcome,
    digest: isSigned ? expect.any(Buffer) : null,
  });
});

test("a ceiling can be narrowed with immediate effect and never widened", async () => {
  const bounded = await vault.makeAgent("acc-1", ["data:read", "data:share"]);
  const shrink = (ceiling: string[], tenant = "acc-1") => vault.shrink(bounded.key_id, tenant, ceiling);
  const refused = { refused: "policy_violation" };
  expect(await sign(to(bounded, "data:share"))).toHaveProperty("signature");
  expect(await shrink(["data:read"], "acc-2")).toMatchObject({ refused: "key_not_found" });
  expect(await shrink(["data:read"])).toEqual({ key_id: bounded.key_id, ceiling: ["data:read"] });
  expect(await sign(to(bounded, "data:share"))).toMatchObject(refused);
  expect(await shrink(["data:read", "data:share"])).toMatchObject(refused);
  expect(await lastRecord()).toMatchObject({
    statement: "ceiling_shrink",
    outcome: "policy_violation",
    key_id: bounded.key_id,
  });
  expect(await shrink([])).toEqual({ key_id: bounded.key_id, ceiling: [] });
  expect(await sign(to(bounded))).toMatchObject(refused);
  expect(await shrink(["data:read"])).toMatchObject(refused);
});

test("custom:* can be narrowed to one custom scope in a root's ceiling, but in an agent's ceiling it grants only itself", async () => {
  const refused = { refused: "policy_violation" };
  const { any, literal } = others;
  expect(await vault.shrink(literal.key_id, "acc-custom", REFUND)).toMatchObject(refused);
  expect(await vault.shrink(any.key_id, "acc-custom", REFUND)).toMatchObject({ ceiling: REFUND });
  expect(await vault.shrink(any.key_id, "acc-custom", ["custom:*"])).toMatchObject(refused);
});

test("a refusal names at most three of the scopes that are not granted", async () => {
  const scope = ["custom:a", "custom:b", "custom:c", "data:read", "data:share"];
  const named = (answer: object) => scope.filter((name) => JSON.stringify(answer).includes(name));
  const wider = [await sign(approved([], ...scope)), await vault.shrink(others.idle.key_id, "acc-1", scope)];
  for (const answer of wider) {
    expect(answer).toMatchObject({ refused: "policy_violation" });
    expect(named(answer)).toHaveLength(3);
  }
});

test("signing never exceeds any of the three ceilings", async () => {
  const scopes = [
    ...["data:read", "data:write", "data:share", "data:*", "files:read", "files:write"],
    ...["custom:a", "payments:*", "payments:send"],
  ];
  const lists = fc.uniqueArray(fc.constantFrom(...scopes), { maxLength: 5 });
  const bounded = await Promise.all(
    fc.sample(lists, 12).map(async (ceiling) => ({ ceiling, key: await vault.makeAgent("acc-1", ceiling) })),
  );
  await fc.assert(
    fc.asyncProperty(lists, fc.constantFrom(...bounded), lists, async (scope, { ceiling, key }, approval) => {
      const signed = await sign({
        certificate: { ...subject(key), scope },
        approval: { ceiling: approval },
      });
      const wider = [...coversScopes(ceiling, scope), ...coversScopes(approval, scope)];
      expect(isRefusal(signed)).toBe(scope.length === 0 || wider.length > 0);
    }),
    { numRuns: 60 },
  );
});

test("a disabled key neither signs nor receives delegations", async () => {
  const [issuer, bounded] = [await makeRoot(), await vault.makeAgent("acc-1")];
  const disabled = { key_id: issuer.key_id, state: "disabled" };
  expect(await vault.disable(issuer.key_id, "acc-2")).toMatchObject({ refused: "key_not_found" });
  expect(await sign(by(issuer))).toHaveProperty("signature");
  for (const _ of ["once", "again"]) {
    expect(await vault.disable(issuer.key_id, "acc-1")).toEqual(disabled);
    expect(await sign(by(issuer))).toMatchObject({ refused: "key_disabled" });
  }
  expect(await sign(to(bounded))).toHaveProperty("signature");
  await vault.disable(bounded.key_id);
  expect(await sign(to(bounded))).toMatchObject({ refused: "key_disabled" });
});
