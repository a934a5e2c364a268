import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import type { DelegationPolicy } from "../../../keyvault/config.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../../keyvault/keys/change.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import {
  type Approval,
  createDelegationSigning,
  type DelegationRequest,
} from "../../../keyvault/sign/delegation.ts";
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
import { certificateFields } from "./certificate_fields.ts";

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;
let now: number;

beforeAll(async () => {
  vault = await startVault();
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  agent = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" });
});
afterAll(() => vault.close());
beforeEach(() => {
  now = unixSeconds(vault.clock.now());
});

type Change = {
  tenant?: string;
  keyId?: string;
  certificate?: Partial<DelegationRequest>;
  approval?: Partial<Approval>;
  policy?: DelegationPolicy;
};

const OPEN: DelegationPolicy = { ceiling: undefined, externalSubjects: true };

function sign({ tenant = "acc-1", keyId = root.key_id, certificate, approval, policy = OPEN }: Change = {}) {
  return createDelegationSigning({ ...vault.vault, clock: vault.clock, policy })(API, keyId, {
    tenant,
    certificate: {
      ...certificateFields(root, agent, now),
      cert_id: `cert-${randomUUID()}`,
      expires_at: now + 3600,
      ...certificate,
    },
    approval: {
      ceiling: ["data:read", "files:read"],
      request_id: "req-1",
      approved_by: "user-1",
      ...approval,
    },
  });
}

const lastRecord = async () =>
  (
    await vault.home.sql(
      "select caller, role, key_id, purpose, statement, digest, outcome, detail from audit order by seq desc limit 1",
    )
  )[0];

test("signs a certificate that both halves verify, with the issuer's key filled in, and records its hash", async () => {
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

test("accepts issued_at 60 s to either side of its clock, and refuses 61 s", async () => {
  for (const issued_at of [now - 60, now + 60]) {
    expect(await sign({ certificate: { issued_at } })).toHaveProperty("signature");
  }
  for (const issued_at of [now - 61, now + 61]) {
    expect(await sign({ certificate: { issued_at } })).toMatchObject({ refused: "policy_violation" });
  }
});

test("accepts a certificate in its last second, and refuses it one second later", async () => {
  const certificate = { issued_at: now - 10, expires_at: now };
  expect(await sign({ certificate })).toHaveProperty("signature");
  expect(await sign({ certificate: { ...certificate, expires_at: now - 1 } })).toMatchObject({
    refused: "policy_violation",
  });
});

test("signs what the approval grants, and nothing wider", async () => {
  expect(await sign({ certificate: { scope: ["data:read", "files:read"] } })).toHaveProperty("signature");
  expect(await sign({ certificate: { scope: ["data:read", "files:write"] } })).toMatchObject({
    refused: "policy_violation",
  });
  expect(await sign({ approval: { ceiling: [] } })).toMatchObject({ refused: "policy_violation" });
  expect(
    await sign({ certificate: { scope: ["data:*"] }, approval: { ceiling: ["data:*"] } }),
  ).toHaveProperty("signature");
  expect(
    await sign({ certificate: { scope: ["data:delete"] }, approval: { ceiling: ["data:*"] } }),
  ).toMatchObject({ refused: "policy_violation" });
});

test("keeps within the ceilings recorded with issuer and subject, whatever the approval says", async () => {
  const bounded = await vault.makeKey({
    tenant: "acc-1",
    purpose: "agent",
    label: "bounded",
    ceiling: ["data:read"],
  });
  const subject = { subject_id: bounded.key_id, subject_pub_key: bounded.public_key };
  const approval = { ceiling: ["data:read", "data:share"] };
  expect(await sign({ certificate: subject, approval })).toHaveProperty("signature");
  expect(await sign({ certificate: { ...subject, scope: ["data:share"] }, approval })).toMatchObject({
    refused: "policy_violation",
  });

  const issuer = await vault.makeKey({
    tenant: "acc-1",
    purpose: "account_root",
    label: "bounded",
    ceiling: ["files:read"],
  });
  const certificate = { issuer_id: issuer.key_id };
  expect(await sign({ keyId: issuer.key_id, certificate })).toMatchObject({ refused: "policy_violation" });
  expect(
    await sign({ keyId: issuer.key_id, certificate: { ...certificate, scope: ["files:read"] } }),
  ).toHaveProperty("signature");
});

test("keeps within the ceiling that the vault itself is set to", async () => {
  const policy = { ...OPEN, ceiling: ["data:*"] };
  expect(await sign({ policy })).toHaveProperty("signature");
  expect(await sign({ certificate: { scope: ["files:read"] }, policy })).toMatchObject({
    refused: "policy_violation",
  });
});

test("custom:* in the vault's or a root's ceiling grants every custom scope, in an agent's or an approval only itself", async () => {
  const scope = ["custom:orders:refund"];
  const granted = { certificate: { scope }, approval: { ceiling: scope } };
  const policy = (ceiling: string[]) => ({ ...granted, policy: { ceiling, externalSubjects: true } });
  expect(await sign(policy(["custom:*"]))).toMatchObject({ scope });
  expect(await sign(policy(["custom:orders"]))).toMatchObject({ refused: "policy_violation" });
  expect(await sign({ certificate: { scope }, approval: { ceiling: ["custom:*"] } })).toMatchObject({
    refused: "policy_violation",
  });
  const order = { tenant: "acc-custom", label: "custom", ceiling: ["custom:*"] };
  const bounded = await vault.makeKey({ ...order, purpose: "account_root" });
  const free = await vault.makeKey({ ...order, purpose: "agent", ceiling: scope });
  const literal = await vault.makeKey({ ...order, purpose: "agent" });
  const delegate = (subject: CreatedKey, wanted: string[]) =>
    sign({
      tenant: order.tenant,
      keyId: bounded.key_id,
      certificate: {
        issuer_id: bounded.key_id,
        subject_id: subject.key_id,
        subject_pub_key: subject.public_key,
        scope: wanted,
      },
      approval: { ceiling: [...wanted, "data:read"] },
    });
  expect(await delegate(free, scope)).toMatchObject({ scope });
  expect(await delegate(free, ["data:read"])).toMatchObject({ refused: "policy_violation" });
  expect(await delegate(literal, scope)).toMatchObject({ refused: "policy_violation" });
  const shrink = createCeilingShrinking(vault.vault);
  const target = (key: CreatedKey) => ({ keyId: key.key_id, tenant: order.tenant });
  expect(await shrink(API, target(literal), scope)).toMatchObject({ refused: "policy_violation" });
  expect(await shrink(API, target(bounded), scope)).toMatchObject({ ceiling: scope });
  expect(await shrink(API, target(bounded), ["custom:*"])).toMatchObject({ refused: "policy_violation" });
});

test("a ceiling can shrink, immediately, and never grow", async () => {
  const bounded = await vault.makeKey({
    tenant: "acc-1",
    purpose: "agent",
    label: "shrinking",
    ceiling: ["data:read", "data:share"],
  });
  const shrink = (ceiling: string[], tenant = "acc-1") =>
    createCeilingShrinking(vault.vault)(API, { keyId: bounded.key_id, tenant }, ceiling);
  const certificate = {
    subject_id: bounded.key_id,
    subject_pub_key: bounded.public_key,
    scope: ["data:share"],
  };
  const approval = { ceiling: ["data:*"] };
  expect(await sign({ certificate, approval })).toHaveProperty("signature");
  expect(await shrink(["data:read"], "acc-2")).toMatchObject({ refused: "key_not_found" });
  expect(await shrink(["data:read"])).toEqual({ key_id: bounded.key_id, ceiling: ["data:read"] });
  expect(await sign({ certificate, approval })).toMatchObject({ refused: "policy_violation" });
  expect(await shrink(["data:read", "data:share"])).toMatchObject({ refused: "policy_violation" });
  expect(await lastRecord()).toMatchObject({
    statement: "ceiling_shrink",
    outcome: "policy_violation",
    key_id: bounded.key_id,
  });
  expect(await shrink([])).toEqual({ key_id: bounded.key_id, ceiling: [] });
  expect(await sign({ certificate: { ...certificate, scope: ["data:read"] }, approval })).toMatchObject({
    refused: "policy_violation",
  });
  expect(await shrink(["data:read"])).toMatchObject({ refused: "policy_violation" });
});

test("a refusal names three of the scopes that are not granted, however many those are", async () => {
  const bounded = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "none", ceiling: [] });
  const scope = ["custom:a", "custom:b", "custom:c", "data:read", "data:share"];
  const named = (answer: object) => scope.filter((name) => JSON.stringify(answer).includes(name));
  const refused = await sign({ certificate: { scope }, approval: { ceiling: [] } });
  expect(refused).toMatchObject({ refused: "policy_violation" });
  expect(named(refused)).toHaveLength(3);
  const target = { keyId: bounded.key_id, tenant: "acc-1" };
  const wider = await createCeilingShrinking(vault.vault)(API, target, scope);
  expect(wider).toMatchObject({ refused: "policy_violation" });
  expect(named(wider)).toHaveLength(3);
});

test("a ceiling that names no scope grants none, whether the vault's, a root's, an agent's or an approval's", async () => {
  const refused = { refused: "policy_violation" };
  const order = { tenant: "acc-1", label: "nothing", ceiling: [] };
  const issuer = await vault.makeKey({ ...order, purpose: "account_root" });
  const subject = await vault.makeKey({ ...order, purpose: "agent" });
  expect(await sign()).toHaveProperty("signature");
  expect(await sign({ policy: { ...OPEN, ceiling: [] } })).toMatchObject(refused);
  expect(await sign({ keyId: issuer.key_id, certificate: { issuer_id: issuer.key_id } })).toMatchObject(
    refused,
  );
  expect(
    await sign({ certificate: { subject_id: subject.key_id, subject_pub_key: subject.public_key } }),
  ).toMatchObject(refused);
  expect(await sign({ approval: { ceiling: [] } })).toMatchObject(refused);
});

test("never signs a scope outside any of the three ceilings", async () => {
  const scopes = [
    "data:read",
    "data:write",
    "data:share",
    "data:*",
    "files:read",
    "files:write",
    "custom:a",
    "payments:*",
    "payments:send",
  ];
  const lists = fc.uniqueArray(fc.constantFrom(...scopes), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(lists, lists, lists, async (scope, recorded, approved) => {
      const bounded = await vault.makeKey({
        tenant: "acc-1",
        purpose: "agent",
        label: "any",
        ceiling: recorded,
      });
      const certificate = { subject_id: bounded.key_id, subject_pub_key: bounded.public_key, scope };
      const signed = await sign({ certificate, approval: { ceiling: approved } });
      const wider = [...coversScopes(recorded, scope), ...coversScopes(approved, scope)];
      expect(isRefusal(signed)).toBe(scope.length === 0 || wider.length > 0);
    }),
    { numRuns: 60 },
  );
});

test("refuses another tenant's key, an unknown one, and one of another purpose", async () => {
  expect(await sign({ tenant: "acc-2" })).toMatchObject({ refused: "key_not_found" });
  expect(await sign({ keyId: "0".repeat(32) })).toMatchObject({ refused: "key_not_found" });
  expect(await sign({ keyId: agent.key_id, certificate: { issuer_id: agent.key_id } })).toMatchObject({
    refused: "purpose_mismatch",
  });
  expect(await lastRecord()).toMatchObject({
    key_id: agent.key_id,
    purpose: "agent",
    outcome: "purpose_mismatch",
    digest: null,
  });
});

test("refuses to name another issuer, or a subject that is not this tenant's agent", async () => {
  const otherRoot = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "other" });
  const foreign = await vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "foreign" });
  const subject = ({ key_id, public_key }: CreatedKey) => ({
    subject_id: key_id,
    subject_pub_key: public_key,
  });
  expect(await sign({ certificate: { issuer_id: otherRoot.key_id } })).toMatchObject({
    refused: "policy_violation",
  });
  expect(await sign({ certificate: subject(otherRoot) })).toMatchObject({ refused: "policy_violation" });
  expect(await sign({ certificate: subject(foreign) })).toMatchObject({ refused: "policy_violation" });
  expect(await sign({ certificate: subject(foreign), approval: { external_subject: true } })).toMatchObject({
    refused: "policy_violation",
  });
  expect(await sign({ certificate: { subject_pub_key: otherRoot.public_key } })).toMatchObject({
    refused: "invalid_request",
  });
});

test("signs for a key outside the vault only when it is marked external and the vault is set to allow it", async () => {
  const publicKey = publicKeyOf(importSeeds(generateSeeds()));
  const certificate = { subject_id: keyId(publicKey), subject_pub_key: publicKey };
  expect(await sign({ certificate })).toMatchObject({ refused: "policy_violation" });
  expect(await sign({ certificate, approval: { external_subject: true } })).toHaveProperty("signature");
  expect(
    await sign({
      certificate,
      approval: { external_subject: true },
      policy: { ...OPEN, externalSubjects: false },
    }),
  ).toMatchObject({ refused: "policy_violation" });
  expect(
    await sign({
      certificate: { ...certificate, scope: ["files:write"] },
      approval: { external_subject: true },
    }),
  ).toMatchObject({ refused: "policy_violation" });
});

test("refuses certificates that the protocol does not let be issued", async () => {
  const faults: Partial<DelegationRequest>[] = [
    { version: 2 },
    { scope: [] },
    { scope: ["data:fly"] },
    { scope: ["x-own:thing"] },
    { subject_id: "0".repeat(32) },
    { expires_at: now },
    { constraints: [{ type: "resource_path", resource_id: "r", path_prefix: "../up" }] },
    { constraints: [{ type: "max_amount", max_amount: 5, currency: "EUR", extra: 1 } as never] },
  ];
  for (const certificate of faults) {
    expect(await sign({ certificate }), JSON.stringify(certificate)).toMatchObject({
      refused: "invalid_request",
    });
  }
});

test("a disabled key signs nothing from that moment, nor is anything delegated to it", async () => {
  const disable = createKeyDisabling({ ...vault.vault, clock: vault.clock });
  const issuer = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "going" });
  const subject = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "going" });
  const change = { keyId: issuer.key_id, certificate: { issuer_id: issuer.key_id } };
  expect(await sign(change)).toHaveProperty("signature");
  expect(await disable(API, { keyId: issuer.key_id, tenant: "acc-2" })).toMatchObject({
    refused: "key_not_found",
  });
  expect(await sign(change)).toHaveProperty("signature");
  expect(await disable(API, { keyId: issuer.key_id, tenant: "acc-1" })).toEqual({
    key_id: issuer.key_id,
    state: "disabled",
  });
  expect(await sign(change)).toMatchObject({ refused: "key_disabled" });
  expect(await disable(API, { keyId: issuer.key_id, tenant: "acc-1" })).toEqual({
    key_id: issuer.key_id,
    state: "disabled",
  });
  const toSubject = { certificate: { subject_id: subject.key_id, subject_pub_key: subject.public_key } };
  expect(await sign(toSubject)).toHaveProperty("signature");
  await disable(API, { keyId: subject.key_id, tenant: undefined });
  expect(await sign(toSubject)).toMatchObject({ refused: "key_disabled" });
});

test("no signature is granted after the record that its key was disabled, whatever races", async () => {
  const disable = createKeyDisabling({ ...vault.vault, clock: vault.clock });
  for (let round = 0; round < 10; round += 1) {
    const issuer = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "racing" });
    const change = { keyId: issuer.key_id, certificate: { issuer_id: issuer.key_id } };
    const signing = Array.from({ length: 12 }, () => sign(change));
    const disabling = disable(API, { keyId: issuer.key_id, tenant: "acc-1" });
    await Promise.all([...signing, disabling]);
    const records = await vault.home.sql<{ statement: string; outcome: string }>(
      "select statement, outcome from audit where key_id = $1 order by seq",
      [issuer.key_id],
    );
    const disabledAt = records.findIndex(({ statement }) => statement === "key_disable");
    const granted = (await Promise.all(signing)).filter((signed) => !isRefusal(signed)).length;
    const grants = records.slice(1, disabledAt).filter(({ outcome }) => outcome === "granted").length;
    expect(grants).toBe(granted);
    expect(records.slice(disabledAt + 1).every(({ outcome }) => outcome === "key_disabled")).toBe(true);
  }
});

test("the vault's own key cannot be disabled or used", async () => {
  const [service] = await vault.home.sql<{ key_id: string }>(
    "select key_id from keys where tenant = 'vault'",
  );
  const disable = createKeyDisabling({ ...vault.vault, clock: vault.clock });
  expect(await disable(API, { keyId: service!.key_id, tenant: undefined })).toMatchObject({
    refused: "policy_violation",
  });
  expect(await sign({ keyId: service!.key_id, tenant: "vault" })).toMatchObject({
    refused: "purpose_mismatch",
  });
});
