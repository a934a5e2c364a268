import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Change } from "../../../keyvault/audit/journal.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { VaultError } from "../../../keyvault/errors.ts";
import { createKekRetirement } from "../../../keyvault/kek/retire.ts";
import { createKekRotation, createRewrapping } from "../../../keyvault/kek/rewrap.ts";
import type { Token } from "../../../keyvault/token/client.ts";
import { ADMIN, startVault, type TestVault } from "../fixture.ts";

/* Each transaction must check again whether the work is still allowed. */

let vault: TestVault;
let steps: string[];
let entries: (AuditEntry | undefined)[];

beforeAll(async () => {
  vault = await startVault();
  await vault.makeAgent("acc-1");
  await vault.vault.token.rotate();
});
afterAll(() => vault.close());
beforeEach(() => {
  steps = [];
  entries = [];
});

/**
 * Returns a journal that runs each change immediately. Successive changes find these numbers of data keys.
 */
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
      entries.push(entry);
      return value;
    },
  };
}

const flush = async () => {
  steps.push("flush");
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
const parts = () => ({ ...vault.vault, token, store, register, flush });
const register = { tenants: () => [], isErased: () => false };

test("a rotation writes the new version to disk before its record", async () => {
  const rotated = await createKekRotation({ journal: journalOf(), token, flush: flush })(ADMIN);
  expect(rotated).toEqual({ kek: "kek-2", keks });
  expect(steps).toEqual(["rotate", "flush", "kek_rotate granted"]);
  expect(entries[0]).toMatchObject({ caller: ADMIN, detail: { kek: "kek-2" } });
});

test("a rotation records a failure if the version cannot be created or written to disk", async () => {
  const away = new VaultError("token_unavailable");
  const broken = { rotate: () => Promise.reject(away) };
  await expect(createKekRotation({ journal: journalOf(), token: broken, flush: flush })(ADMIN)).rejects.toBe(
    away,
  );
  const full = () => Promise.reject(new Error("no space left"));
  await expect(createKekRotation({ journal: journalOf(), token, flush: full })(ADMIN)).rejects.toMatchObject({
    code: "internal",
  });
  expect(steps).toEqual(["kek_rotate failed", "rotate", "kek_rotate failed"]);
});

test("a retirement writes a record, destroys the version, syncs the disk, and writes a second record", async () => {
  const { retire } = createKekRetirement({ ...parts(), journal: journalOf(0, 0) });
  expect(await retire(ADMIN, "kek-1")).toEqual({ retired: "kek-1", keks: ["kek-2"] });
  expect(steps).toEqual(["kek_retire granted", "retire", "flush", "kek_retire granted"]);
});

test("a retirement keeps a version if a data key is wrapped under it again before the last transaction", async () => {
  const { retire } = createKekRetirement({ ...parts(), journal: journalOf(0, 1) });
  expect(await retire(ADMIN, "kek-1")).toMatchObject({ refused: "policy_violation" });
  expect(steps).toEqual(["kek_retire granted", "kek_retire policy_violation"]);
});

test("a retirement gives up if data keys change faster than they can be checked", async () => {
  let reads = 0;
  const query = async (sql: string) => {
    if (sql.includes("count(")) return { rows: [{ count: 0 }] };
    reads += 1;
    const many = reads < 100 ? 251 : 0;
    const box = () => Buffer.from(`${reads} ${Math.random()}`.padEnd(60).slice(0, 60));
    return {
      rows: Array.from({ length: many }, () => ({ tenant: "t", kek: "kek-2", wrapped_data_key: box() })),
    };
  };
  const journal = {
    ...vault.vault.journal,
    async change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>): Promise<T> {
      const { value, entry } = await apply({ query } as unknown as pg.Client, 1);
      if (entry !== undefined) steps.push(`${entry.statement} ${entry.outcome}`);
      return value;
    },
  };
  const { retire } = createKekRetirement({ ...parts(), journal });
  expect(await retire(ADMIN, "kek-1")).toMatchObject({
    message: expect.stringContaining("changed while they were checked"),
  });
  expect(steps).toEqual(["kek_retire granted", "kek_retire policy_violation"]);
});

test("a retirement's stop() waits for a running proof", async () => {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begins } = Promise.withResolvers<void>();
  const slow = {
    ...token,
    async findVersions(boxes: unknown[]) {
      begins();
      await gate;
      return boxes.map(() => "kek-2");
    },
  };
  const journal = { ...journalOf(0, 0), record: async () => steps.push("failed") > 0 };
  const retirement = createKekRetirement({ ...parts(), token: slow, journal });
  const retiring = retirement.retire(ADMIN, "kek-1").catch((error: VaultError) => error.code);
  await begun;
  const stopping = retirement.stop().then(() => steps.push("stopped"));
  await new Promise((resolve) => setImmediate(resolve));
  letGo();
  expect(await retiring).toBe("unavailable");
  await stopping;
  expect(steps).toEqual(["kek_retire granted", "failed", "stopped"]);
});

/**
 * Returns a rewrapping of 600 data keys and the sizes of its batches. The token waits for `gate` and then
 * opens none of the data keys.
 */
async function rewrappingOf(gate: () => Promise<unknown>) {
  await vault.home.sql(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at)
     select 'many-' || n, 'kek-1', decode(repeat('00', 60), 'hex'), now() from generate_series(1, 600) as n
     on conflict do nothing`,
  );
  const given: number[] = [];
  const none: Token = {
    ...vault.vault.token,
    async rewrap(boxes) {
      given.push(boxes.length);
      await gate();
      return boxes.map(() => null);
    },
  };
  return { given, rewrapping: createRewrapping({ ...vault.vault, token: none }) };
}

const rewrapRecords = () =>
  vault.home.sql("select from audit where statement = 'kek_rewrap' and detail ? 'tenants'");

test("a rewrapping handles 250 data keys at a time and records each batch", async () => {
  const { given, rewrapping } = await rewrappingOf(async () => {});
  const before = (await rewrapRecords()).length;
  await rewrapping.start(ADMIN);
  await expect.poll(async () => (await rewrapping.progress()).running, { timeout: 20_000 }).toBe(false);
  expect(given).toEqual([250, 250, 102]);
  expect((await rewrapRecords()).length - before).toBe(3);
});

test("a rewrapping that is requested twice runs once, and stop() stops it after the current batch", async () => {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const { given, rewrapping } = await rewrappingOf(() => gate);
  for (let asked = 0; asked < 3; asked += 1) {
    expect(await rewrapping.start(ADMIN)).toMatchObject({ running: true });
  }
  await expect.poll(() => given.length).toBe(1);
  const stopping = rewrapping.stop();
  letGo();
  await stopping;
  expect(given).toEqual([250]);
  expect(await rewrapping.progress()).toMatchObject({ running: false });
});

test("a rewrapping reports the code of its last fault until the next run", async () => {
  const faults: Error[] = [new VaultError("token_unavailable"), new Error("secret")];
  const { rewrapping } = await rewrappingOf(async () => {
    const fault = faults.shift();
    if (fault !== undefined) throw fault;
  });
  const told: unknown[] = [];
  for (let run = 0; run < 3; run += 1) {
    await rewrapping.start(ADMIN);
    await expect.poll(async () => (await rewrapping.progress()).running, { timeout: 20_000 }).toBe(false);
    told.push((await rewrapping.progress()).fault);
  }
  expect(told).toEqual(["token_unavailable", "internal", null]);
  await vault.home.sql("delete from tenants where tenant like 'many-%'");
});

const stored = () =>
  vault.home.sql<{ kek: string; wrapped_data_key: Buffer }>(
    "select kek, wrapped_data_key from tenants where tenant = 'acc-1'",
  );

/** Rewraps with a token that runs `meanwhile` before it responds. */
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

test("a data key that is erased while it is rewrapped stays erased", async () => {
  const [before] = await stored();
  await rewrapWhile(() => vault.home.sql("update tenants set wrapped_data_key = '' where tenant = 'acc-1'"));
  expect(await stored()).toEqual([{ kek: "kek-1", wrapped_data_key: Buffer.alloc(0) }]);
  await vault.home.sql("update tenants set wrapped_data_key = $1 where tenant = 'acc-1'", [
    before!.wrapped_data_key,
  ]);
});

test("a data key stays under the old version if the new version is retired while the data key is rewrapped", async () => {
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
