import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createErasing } from "../../keyvault/lifecycle/erase_due.ts";
import { agreeing } from "../support/clock.ts";
import { codeOf, issueAdmins, startVault, type TestVault } from "./fixture.ts";
import type { Client } from "./http/caller_support.ts";

/*
 * Every attempt uses the vault's own database role. It changes columns that no code covers, or writes rows
 * that might make every query that reads them fail.
 */

vi.setConfig({ testTimeout: 60_000 });

const TOO_LONG = "x".repeat(6_000_000);

let vault: TestVault;
let admins: Client[];

beforeAll(async () => {
  vault = await startVault();
  admins = await issueAdmins(vault.home, "alice", "bob");
});
afterAll(() => vault.close());

const sql = (text: string, values?: unknown[]) => vault.home.sql(text, values);
const post = (path: string, body: object = {}) => vault.post(path, body, vault.admin);
const createKey = (body: object, name: string = randomUUID()) =>
  vault.post("/v1/keys", { label: "key", ...body }, vault.api, { "idempotency-key": name });
const makeAgent = async (tenant: string, ceiling?: string[]) =>
  (await vault.makeAgent(tenant, ceiling)).key_id;

test("an agent's key whose row is altered to a root key does not allow a root key with a wider ceiling", async () => {
  const tenant = "acc-1";
  await vault.makeKey({ tenant, purpose: "account_root", label: "root", ceiling: ["data:read"] });
  const agent = await makeAgent(tenant, ["payments:send"]);
  await sql("update keys set purpose = 'account_root' where key_id = $1", [agent]);
  const wider = { tenant, purpose: "account_root", ceiling: ["payments:send"] };
  expect(codeOf(await createKey(wider))).toBe("policy_violation");
  expect((await createKey({ ...wider, ceiling: ["data:read"] })).status).toBe(200);
});

test("a repeated creation does not return a different key of the tenant whose row was given the same request name", async () => {
  const order = { tenant: "acc-5", purpose: "agent" };
  const wide = await createKey({ ...order, ceiling: ["payments:send"] });
  const narrow = await createKey({ ...order, ceiling: ["data:read"] }, "the-narrow-key");
  const again = () => createKey({ ...order, ceiling: ["data:read"] }, "the-narrow-key");
  expect(await again()).toEqual(narrow);
  await sql("create table narrow as select * from keys where key_id = $1", [narrow.body.key_id]);
  await sql("update keys set request_key = 'elsewhere' where key_id = $1", [narrow.body.key_id]);
  await sql(
    "update keys set (request_key, request_hash, label) = (select request_key, request_hash, label from narrow) where key_id = $1",
    [wide.body.key_id],
  );
  expect(codeOf(await again())).toBe("key_damaged");
});

test("a row that is too long does not prevent the vault from listing or erasing other rows", async () => {
  const [ending, long] = [await makeAgent("acc-2"), await makeAgent("acc-3")];
  for (const admin of admins) await vault.post(`/v1/keys/${ending}/destroy`, { after_days: 7 }, admin);
  await sql(
    `update keys set key_id = repeat('0', 32), pending = jsonb_build_object('action', $2::text), state = 'destroying',
                     disabled_at = now(), destroy_at = now() where key_id = $1`,
    [long, TOO_LONG],
  );
  const { body } = await vault.get("/v1/keys?limit=500");
  expect(body.keys).toContainEqual(expect.objectContaining({ key_id: "0".repeat(32), damaged: true }));
  expect(body.keys).toContainEqual(expect.objectContaining({ key_id: ending, damaged: false }));
  const later = new Date(vault.clock.now().getTime() + 8 * 86_400_000);
  const erase = createErasing({ ...vault.vault, clock: agreeing({ now: () => later }) });
  expect(await erase()).toEqual({ keys: 1, tenants: 0 });
  await sql("delete from keys where key_id = repeat('0', 32)");
});

test.each([
  ["tenant", "tenant", "$1"],
  ["version", "kek", "$1"],
])(
  "a data key with an overlong %s name does not prevent other rewrappings or a retirement",
  async (_, column) => {
    await makeAgent(`acc-4-${column}`);
    await sql(
      `alter table keys drop constraint if exists keys_tenant_fkey;
       alter table tenants drop constraint if exists tenants_pkey;
       drop index if exists tenants_by_kek;
       create table former as select * from tenants where tenant = 'acc-4-${column}';
       update former set tenant = 'acc-0'; update former set ${column} = '${TOO_LONG}';
       insert into tenants select * from former; drop table former`,
    );
    const { body: rotated } = await post("/v1/kek/rotate");
    await post("/v1/kek/rewrap");
    const progress = async () => (await vault.get("/v1/status")).body.kek;
    await expect
      .poll(progress, { timeout: 10_000 })
      .toMatchObject({ running: false, fault: null, remaining: 0, damaged: [expect.any(String)] });
    const [old] = rotated.keks as string[];
    expect(codeOf(await post("/v1/kek/retire", { kek: old }))).toBe("policy_violation");
    await sql("delete from tenants where length(tenant) > 1000 or length(kek) > 1000");
    expect((await post("/v1/kek/retire", { kek: old })).status).toBe(200);
  },
);
