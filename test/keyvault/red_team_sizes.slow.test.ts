import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { codeOf, startVaultWith, type TestVault } from "./fixture.ts";
import type { Answer } from "./http/caller_support.ts";
import { type Change, delegationRequest } from "./sign/delegation_request.ts";

/*
 * Every attempt sends the longest or most unusual fields that the vault accepts from the API. Data that the
 * vault later records, shows or checks might therefore become too large.
 */

const WIDEST = "\u2028";

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;

beforeAll(async () => {
  vault = await startVaultWith({ KEYVAULT_RATE_PER_KEY: "0", KEYVAULT_RATE_PER_TENANT: "0" });
  const bounded = { tenant: "acc-1", ceiling: ["data:read"], label: "key" };
  root = await vault.makeKey({ ...bounded, purpose: "account_root" });
  agent = await vault.makeAgent("acc-1");
});
afterAll(() => vault.close());

const delegate = (change: Change): Promise<Answer> =>
  vault.post(`/v1/keys/${root.key_id}/sign/delegation`, delegationRequest(root, agent, vault.now(), change));

test.each([
  ["subject_id", "\u0000"],
  ["issuer_id", "a\u0000"],
  ["subject_id", "\u001f"],
  ["subject_id", ""],
])(
  "the vault rejects and records a delegation with the %s %j, which the database cannot store or an auditor cannot read",
  async (field, text) => {
    const before = vault.head();
    expect(await delegate({ certificate: { [field]: text } })).toMatchObject({
      status: 400,
      body: { error: { status: 400 } },
    });
    const rows = await vault.home.sql("select statement, outcome, role from audit where seq > $1", [before]);
    expect(rows).toEqual([{ statement: "call", outcome: "invalid_request", role: "api" }]);
  },
);

test("keys with the longest allowed ceilings are listed, and their tenant can get further root keys", async () => {
  const ceiling = Array.from({ length: 128 }, (_, index) =>
    `custom:${String(index).padStart(3, "0")}`.padEnd(250, WIDEST),
  );
  const body = { tenant: "acc-wide", purpose: "account_root", label: "root", ceiling };
  const pid = vault.token.pid();
  for (let made = 0; made < 30; made += 1) {
    const headers = { "idempotency-key": randomUUID() };
    expect((await vault.post("/v1/keys", body, vault.api, headers)).status).toBe(200);
  }
  const listed = await vault.get("/v1/keys?tenant=acc-wide");
  expect(listed.status).toBe(200);
  expect(listed.body.keys).toHaveLength(30);
  expect(vault.token.pid()).toBe(pid);
});

test("records with the longest allowed fields are written together, and the chain verifies", async () => {
  const certificate = { subject_id: WIDEST.repeat(512), cert_id: "c".repeat(128) };
  const approval = { approved_by: WIDEST.repeat(320), request_id: "r".repeat(128) };
  const tries = Array.from({ length: 520 }, () => delegate({ certificate, approval }));
  for (const answer of await Promise.all(tries)) expect(codeOf(answer)).toBe("invalid_request");
  expect(await vault.verifyAudit()).toMatchObject({ intact: true, head: { seq: vault.head() } });
});
