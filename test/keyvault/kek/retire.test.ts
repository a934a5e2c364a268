import { afterAll, beforeAll, expect, test } from "vitest";
import type { RewrapProgress } from "../../../keyvault/kek/rewrap.ts";
import { createTenantDestruction } from "../../../keyvault/lifecycle/destroy.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { ADMINS, codeOf, startVault, type TestVault } from "../fixture.ts";
import { storeTenants, tenantsByKek } from "./tenants_support.ts";

let vault: TestVault;
let agent: string;

beforeAll(async () => {
  vault = await startVault();
  agent = (await vault.makeAgent("acc-1")).key_id;
});
afterAll(() => vault.close());

const post = (path: string, body: unknown = {}) => vault.post(path, body, vault.admin);
const retire = (kek: string) => post("/v1/kek/retire", { kek });
const progress = async () => (await vault.get("/v1/status")).body.kek as RewrapProgress;
const rewrap = async () => {
  await post("/v1/kek/rewrap");
  await expect.poll(async () => (await progress()).running, { timeout: 30_000 }).toBe(false);
};
const sign = async () => codeOf(await vault.sign(agent));
const outcomes = () =>
  vault.home.sql<{ outcome: string; kek: string; step: string }>(
    "select outcome, detail ->> 'kek' as kek, detail ->> 'step' as step from audit where statement = 'kek_retire' order by seq",
  );

test("POST /v1/kek/retire refuses the newest version, a missing version and a version in use, and records each refusal", async () => {
  for (const kek of ["kek-1", "kek-2"]) {
    expect(await retire(kek), kek).toMatchObject({
      status: 403,
      body: { error: { code: "policy_violation" } },
    });
  }
  await post("/v1/kek/rotate");
  expect((await retire("kek-1")).body.error).toMatchObject({
    code: "policy_violation",
    message: "kek-1 still wraps 2 data keys: rewrap them first",
  });
  expect(vault.vault.token.info().keks).toEqual(["kek-1", "kek-2"]);
  expect((await outcomes()).map(({ outcome }) => outcome)).toEqual(Array(3).fill("policy_violation"));
  for (const kek of ["audit-1", "kek-0", "kek-", "", "kek-1 "]) {
    expect((await retire(kek)).body.error?.code, kek).toBe("invalid_request");
  }
});

test("POST /v1/kek/retire keeps a version that wraps a data key, but ignores tenants whose data key was erased", async () => {
  await vault.makeAgent("acc-gone");
  await vault.home.sql("update tenants set kek = 'kek-1' where tenant = 'acc-gone'");
  for (const one of ADMINS) await createTenantDestruction(vault.parts())(one, "acc-gone", 7);
  vault.clock.move(7 * 86_400);
  expect(await createErasing(vault.parts())()).toEqual({ keys: 0, tenants: 1 });
  await rewrap();
  await vault.home.sql("update tenants set kek = 'kek-1' where tenant = 'acc-1'");
  expect((await retire("kek-1")).status).toBe(403);
  await vault.home.sql("update tenants set kek = 'kek-2' where tenant = 'acc-1'");
});

test("POST /v1/kek/retire destroys a version that wraps nothing, and all keys still sign", async () => {
  expect(await sign()).toBe(200);
  expect((await retire("kek-1")).body).toEqual({ retired: "kek-1", keks: ["kek-2"] });
  expect(vault.vault.token.info().keks).toEqual(["kek-2"]);
  vault.vault.dataKeys.clear();
  expect(await sign()).toBe(200);
  await vault.makeAgent("acc-2");
  expect((await outcomes()).slice(-2)).toEqual([
    { outcome: "granted", kek: "kek-1", step: "begun" },
    { outcome: "granted", kek: "kek-1", step: "done" },
  ]);
  expect((await retire("kek-1")).status).toBe(403);
  vault = await vault.restart();
  expect(vault.vault.token.info().keks).toEqual(["kek-2"]);
  expect(await sign()).toBe(200);
  await vault.makeAgent("acc-3");
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("POST /v1/kek/rotate never reuses the number of a retired version", async () => {
  expect((await post("/v1/kek/rotate")).body).toEqual({ kek: "kek-3", keks: ["kek-2", "kek-3"] });
});

test("keys created during rotations and retirements use a version that still exists", async () => {
  await storeTenants(vault.home, vault.vault.token, 260);
  let made = 0;
  let turning = true;
  const making = Array.from({ length: 3 }, async (_, maker) => {
    while (turning) {
      await vault.makeAgent(`new-${maker}-${made}`);
      made += 1;
    }
  });
  try {
    for (let round = 0; round < 3; round += 1) {
      const before = vault.vault.token.info().keks;
      await post("/v1/kek/rotate");
      await rewrap();
      for (const kek of before) await retire(kek);
    }
  } finally {
    turning = false;
    await Promise.allSettled(making);
  }
  await Promise.all(making);
  expect(made).toBeGreaterThan(3);
  const { keks } = vault.vault.token.info();
  expect(Object.keys(await tenantsByKek(vault.home)).filter((kek) => !keks.includes(kek))).toEqual([]);
  vault.vault.dataKeys.clear();
  expect(await sign()).toBe(200);
}, 60_000);

test("a data key that names a missing version makes only its own tenant's keys damaged", async () => {
  const pid = vault.vault.token.pid();
  await vault.home.sql("update tenants set kek = 'kek-1' where tenant = 'acc-1'");
  vault.vault.dataKeys.clear();
  vault.vault.store.changed();
  expect(await sign()).toBe("key_damaged");
  await vault.makeAgent("acc-4");
  expect(vault.vault.token.pid()).toBe(pid);
});
