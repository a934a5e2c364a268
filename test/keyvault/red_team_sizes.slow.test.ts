import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { loadConfig } from "../../keyvault/config.ts";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { createHome, readIdentity, startVault, type TestVault } from "./fixture.ts";
import { type Answer, type Client, call } from "./http/caller_support.ts";
import { certificateFields } from "./sign/certificate_fields.ts";

/*
 * Tried with the API's certificate: fields that are as long or as strange as they may be, so that what the
 * vault writes down, shows or checks later becomes too much for it.
 */

const WIDEST = "\u2028";

let vault: TestVault;
let api: Client;
let admin: Client;
let root: CreatedKey;
let agent: CreatedKey;

beforeAll(async () => {
  const home = await createHome();
  home.config = loadConfig({
    ...home.environment,
    KEYVAULT_RATE_PER_KEY: "0",
    KEYVAULT_RATE_PER_TENANT: "0",
  });
  vault = await startVault(home);
  api = readIdentity(vault.home, "api");
  admin = readIdentity(vault.home, "admin");
  const bounded = { tenant: "acc-1", ceiling: ["data:read"], label: "key" };
  root = await vault.makeKey({ ...bounded, purpose: "account_root" });
  agent = await vault.makeKey({ ...bounded, purpose: "agent" });
});
afterAll(() => vault.close());

const head = () => vault.vault.journal.head().seq;
const codeOf = ({ body }: Answer) => body.error?.code;

function delegate(certificate: object, approval: object = {}): Promise<Answer> {
  const now = unixSeconds(vault.clock.now());
  const body = {
    tenant: "acc-1",
    certificate: {
      ...certificateFields(root, agent, now),
      ...certificate,
    },
    approval: { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1", ...approval },
  };
  return call(`${vault.url}/v1/keys/${root.key_id}/sign/delegation`, api, { method: "POST", body });
}

test.each([
  ["subject_id", "\u0000"],
  ["issuer_id", "a\u0000"],
  ["subject_id", "\u001f"],
  ["subject_id", ""],
])("%s %j, which the database cannot hold or nobody can read, is refused on record", async (field, text) => {
  const before = head();
  expect(await delegate({ [field]: text })).toMatchObject({ status: 400, body: { error: { status: 400 } } });
  const rows = await vault.home.sql("select statement, outcome, role from audit where seq > $1", [before]);
  expect(rows).toEqual([{ statement: "call", outcome: "invalid_request", role: "api" }]);
});

test("keys with the longest ceilings there may be are listed, and their tenant gets further roots", async () => {
  const ceiling = Array.from({ length: 128 }, (_, index) =>
    `custom:${String(index).padStart(3, "0")}`.padEnd(250, WIDEST),
  );
  const body = { tenant: "acc-wide", purpose: "account_root", label: "root", ceiling };
  const pid = vault.token.pid();
  for (let made = 0; made < 30; made += 1) {
    const headers = { "idempotency-key": randomUUID() };
    expect((await call(`${vault.url}/v1/keys`, api, { method: "POST", body, headers })).status).toBe(200);
  }
  const listed = await call(`${vault.url}/v1/keys?tenant=acc-wide`, admin);
  expect(listed.status).toBe(200);
  expect(listed.body.keys).toHaveLength(30);
  expect(vault.token.pid()).toBe(pid);
});

test("records with the longest fields there may be are written together, and the chain is verified", async () => {
  const certificate = { subject_id: WIDEST.repeat(512), cert_id: "c".repeat(128) };
  const approval = { approved_by: WIDEST.repeat(320), request_id: "r".repeat(128) };
  const tries = Array.from({ length: 520 }, () => delegate(certificate, approval));
  for (const answer of await Promise.all(tries)) expect(codeOf(answer)).toBe("invalid_request");
  expect(await vault.verifyAudit()).toMatchObject({ intact: true, head: { seq: head() } });
});
