import { afterAll, beforeAll, expect, test } from "vitest";
import { drawProgress } from "../../../keyvault/commands/display.ts";
import type { RewrapProgress } from "../../../keyvault/kek/rewrap.ts";
import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import { codeOf, startVault, type TestVault } from "../fixture.ts";
import { storeTenants, tenantsByKek } from "./tenants_support.ts";

/** Enough for several batches. */
const TENANTS = 800;

let vault: TestVault;
let agent: string;

beforeAll(async () => {
  vault = await startVault();
  agent = (await vault.makeAgent("acc-1")).key_id;
  await storeTenants(vault.home, vault.vault.token, TENANTS);
});
afterAll(() => vault.close());

const post = (path: string) => vault.post(path, {}, vault.admin);
const sign = async () => (await vault.sign(agent)).status;
const progress = async () => (await vault.get("/v1/status")).body.kek as RewrapProgress;
const rewrapped = async () => {
  await post("/v1/kek/rewrap");
  await expect.poll(async () => (await progress()).running, { timeout: 30_000 }).toBe(false);
  return progress();
};

test("after a rotation the new version wraps new data keys, and the old version still opens the data keys that it wrapped", async () => {
  expect((await post("/v1/kek/rotate")).body).toEqual({ kek: "kek-2", keks: ["kek-1", "kek-2"] });
  expect(await sign()).toBe(200);
  await vault.makeAgent("acc-new");
  expect(await tenantsByKek(vault.home)).toEqual({ "kek-1": TENANTS + 2, "kek-2": 1 });
  expect((await progress()).remaining).toBe(TENANTS + 2);
});

test("a rewrapping stops if the token fails and continues with the next call, while signing continues", async () => {
  const [box] = await vault.home.sql<{ wrapped_data_key: Buffer }>(
    "select wrapped_data_key from tenants where tenant = 'bulk-7'",
  );
  await post("/v1/kek/rewrap");
  const signed = await Promise.all(Array.from({ length: 10 }, sign));
  expect(signed.every((status) => status === 200)).toBe(true);
  await expect
    .poll(async () => (await tenantsByKek(vault.home))["kek-2"], { interval: 5 })
    .toBeGreaterThan(1);
  process.kill(vault.vault.token.pid()!, "SIGKILL");
  await expect.poll(async () => (await progress()).running, { timeout: 30_000 }).toBe(false);
  await expect.poll(sign, { timeout: 30_000 }).toBe(200);
  const last = await rewrapped();
  expect(last).toMatchObject({ remaining: 0, damaged: [], fault: null });
  expect(await tenantsByKek(vault.home)).toEqual({ "kek-2": TENANTS + 3 });
  const [after] = await vault.home.sql<{ kek: string; wrapped_data_key: Buffer }>(
    "select kek, wrapped_data_key from tenants where tenant = 'bulk-7'",
  );
  expect(after?.wrapped_data_key).not.toEqual(box?.wrapped_data_key);
  const opened = await vault.vault.token.unwrap(
    { kek: after!.kek, box: after!.wrapped_data_key },
    dataKeyContext("bulk-7"),
  );
  expect(Buffer.from(opened)).toEqual(Buffer.alloc(32, "bulk-7"));
  vault.vault.store.changed();
  vault.vault.dataKeys.clear();
  expect(await sign()).toBe(200);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("a rewrapping names an altered data key, skips it and rewraps all others", async () => {
  await post("/v1/kek/rotate");
  await vault.home.sql(
    "update tenants set wrapped_data_key = set_bit(wrapped_data_key, 9, 1 - get_bit(wrapped_data_key, 9)) where tenant = 'bulk-5'",
  );
  expect(await rewrapped()).toMatchObject({
    kek: "kek-3",
    done: TENANTS + 2,
    remaining: 0,
    damaged: ["bulk-5"],
  });
  expect(await tenantsByKek(vault.home)).toEqual({ "kek-2": 1, "kek-3": TENANTS + 2 });
});

test("the rewrapping's progress ignores a damaged data key that was erased later", async () => {
  await vault.makeAgent("acc-gone");
  await post("/v1/kek/rotate");
  await vault.home.sql(
    "update tenants set wrapped_data_key = set_bit(wrapped_data_key, 9, 1 - get_bit(wrapped_data_key, 9)) where tenant = 'acc-gone'",
  );
  expect((await rewrapped()).damaged.toSorted()).toEqual(["acc-gone", "bulk-5"]);
  await vault.home.sql("update tenants set wrapped_data_key = '' where tenant = 'acc-gone'");
  expect(await progress()).toMatchObject({ remaining: 0, damaged: ["bulk-5"] });
});

test("a rewrapping names rows with an unknown version or too many bytes, and the token keeps working", async () => {
  await vault.makeAgent("acc-lost");
  await post("/v1/kek/rotate");
  await vault.home.sql("update tenants set kek = 'kek-77' where tenant in ('bulk-6', 'acc-lost')");
  await vault.home.sql(
    "update tenants set wrapped_data_key = convert_to(repeat('x', 6000000), 'UTF8') where tenant = 'bulk-9'",
  );
  const before = vault.vault.token.pid();
  const { damaged, ...rest } = await rewrapped();
  expect(damaged.toSorted()).toEqual(["acc-lost", "bulk-5", "bulk-6", "bulk-9"]);
  expect(rest).toMatchObject({ kek: "kek-5", done: TENANTS, remaining: 0, fault: null });
  expect(vault.vault.token.pid()).toBe(before);
  expect(await sign()).toBe(200);
});

test("only a key whose data key names an unknown version is damaged", async () => {
  const { key_id } = await vault.makeAgent("acc-relabelled");
  await vault.home.sql("update tenants set kek = 'kek-77' where tenant = 'acc-relabelled'");
  vault.vault.store.changed();
  vault.vault.dataKeys.clear();
  const before = vault.vault.token.pid();
  expect(codeOf(await vault.sign(key_id, "acc-relabelled"))).toBe("key_damaged");
  expect(vault.vault.token.pid()).toBe(before);
  expect(await sign()).toBe(200);
});

test("each batch is recorded with the admin who started the rewrapping", async () => {
  const [row] = await vault.home.sql<{ tenants: number }>(
    `select sum((detail ->> 'tenants')::int)::int as tenants from audit
     where statement = 'kek_rewrap' and caller = 'admin' and detail ->> 'kek' = 'kek-3'`,
  );
  expect(row?.tenants).toBe(TENANTS + 2);
});

test("drawProgress returns a line that fits the terminal's width", () => {
  for (const columns of [20, 80, 120]) {
    expect(drawProgress(2_500, 5_000, columns).length).toBeLessThanOrEqual(Math.max(columns, 26));
  }
  expect(drawProgress(2_500, 5_000, 80)).toBe(`[${"#".repeat(20)}${"-".repeat(20)}]  50 %  2500 of 5000`);
  expect(drawProgress(0, 0, 80)).toContain("100 %");
});
