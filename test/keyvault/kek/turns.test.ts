import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Change } from "../../../keyvault/audit/journal.ts";
import { createKekRetirement } from "../../../keyvault/kek/retire.ts";
import { createRewrapping } from "../../../keyvault/kek/rewrap.ts";
import { createKekRotation } from "../../../keyvault/kek/rotate.ts";
import type { Token } from "../../../keyvault/token/client.ts";
import { ADMIN, startVault, type TestVault } from "../fixture.ts";

/*
 * What may come between two turns of work on the key-encryption key: each turn decides anew.
 */

let vault: TestVault;
let steps: string[];

beforeAll(async () => {
  vault = await startVault();
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" });
  await vault.vault.token.rotate();
});
afterAll(() => vault.close());
beforeEach(() => {
  steps = [];
});

/** A journal that runs what it is given at once, on a database in which `wrapped` data keys are found, time after time. */
function journalOf(...wrapped: number[]) {
  const query = async (sql: string) => ({
    rows: sql.includes("count(") ? [{ count: wrapped.shift() ?? 0 }] : [],
  });
  const client = { query } as unknown as pg.Client;
  return {
    ...vault.vault.journal,
    async change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>): Promise<T> {
      const { value, entry } = await apply(client, 1);
      steps.push(`${entry?.statement} ${entry?.outcome}`);
      return value;
    },
  };
}

const settle = async () => {
  steps.push("settle");
};
const keks = ["kek-1", "kek-2"];
const token = {
  info: () => ({ ...vault.vault.token.info(), keks }),
  findVersions: async (boxes: unknown[]) => boxes.map(() => "kek-2"),
  async rotate() {
    steps.push("rotate");
    return { keks };
  },
  async retire() {
    steps.push("retire");
    return { keks: ["kek-2"] };
  },
};
const store = { changed: () => void steps.push("forget") };
const parts = () => ({ ...vault.vault, token, store, register, settle });
const register = { tenants: () => [], isErased: () => false };

test("a new version is on disk before its record is, and so before anything is wrapped under it", async () => {
  const rotated = await createKekRotation({ journal: journalOf(), token, settle })(ADMIN);
  expect(rotated).toEqual({ kek: "kek-2", keks });
  expect(steps).toEqual(["rotate", "settle", "kek_rotate granted"]);
});

test("a version is destroyed, and gone from the disk, between the record that it begins and the one that it is done", async () => {
  const { retire } = createKekRetirement({ ...parts(), journal: journalOf(0, 0) });
  expect(await retire(ADMIN, "kek-1")).toEqual({ retired: "kek-1", keks: ["kek-2"] });
  expect(steps).toEqual(["kek_retire granted", "retire", "settle", "kek_retire granted"]);
});

test("a version that wraps a data key again when its turn has come is not destroyed", async () => {
  const { retire } = createKekRetirement({ ...parts(), journal: journalOf(0, 1) });
  expect(await retire(ADMIN, "kek-1")).toMatchObject({ refused: "policy_violation" });
  expect(steps).toEqual(["kek_retire granted", "kek_retire policy_violation"]);
});

const stored = () =>
  vault.home.sql<{ kek: string; wrapped_data_key: Buffer }>(
    "SELECT kek, wrapped_data_key FROM tenants WHERE tenant = 'acc-1'",
  );

/** Rewraps with a token whose answer `meanwhile` overtakes. */
async function rewrapWhile(meanwhile: () => Promise<unknown>, change: Partial<Token> = {}): Promise<void> {
  const real = vault.vault.token;
  const slow: Token = {
    ...real,
    async rewrap(boxes) {
      const renewed = await real.rewrap(boxes);
      await meanwhile();
      return renewed;
    },
    ...change,
  };
  const rewrapping = createRewrapping({ ...vault.vault, token: slow });
  await rewrapping.start(ADMIN);
  await expect.poll(async () => (await rewrapping.progress()).running).toBe(false);
  await rewrapping.stop();
}

test("a data key that was erased while it was wrapped anew stays erased", async () => {
  const [before] = await stored();
  await rewrapWhile(() => vault.home.sql("UPDATE tenants SET wrapped_data_key = '' WHERE tenant = 'acc-1'"));
  expect(await stored()).toEqual([{ kek: "kek-1", wrapped_data_key: Buffer.alloc(0) }]);
  await vault.home.sql("UPDATE tenants SET wrapped_data_key = $1 WHERE tenant = 'acc-1'", [
    before!.wrapped_data_key,
  ]);
});

test("a data key that was wrapped under a version retired meanwhile stays under the old one", async () => {
  const before = await stored();
  let retired = false;
  const real = vault.vault.token;
  const info = () => ({ ...real.info(), keks: retired ? ["kek-1", "kek-3"] : real.info().keks });
  await rewrapWhile(
    async () => {
      retired = true;
    },
    { info },
  );
  expect(await stored()).toEqual(before);
  await rewrapWhile(async () => {});
  expect((await stored())[0]?.kek).toBe("kek-2");
});
