import type pg from "pg";
import { expect, test } from "vitest";
import type { Change, Journal } from "../../../keyvault/audit/journal.ts";
import type { StateKind } from "../../../keyvault/audit/last_states.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import type { RowCodes } from "../../../keyvault/audit/row_codes.ts";
import type { KeyRow, TenantRow } from "../../../keyvault/db/rows.ts";
import { createAdoption } from "../../../keyvault/lifecycle/adopt_states.ts";
import { testClock } from "../fixture.ts";

const UNSAID = { pending: null, destroy_at: null, state_seq: null, state_mac: null } as const;
const key = (key_id: string) =>
  ({
    ...UNSAID,
    key_id,
    tenant: "acc-1",
    state: "active",
    ceiling: [],
    disabled_at: null,
  }) as unknown as KeyRow;
const tenant = (name: string) => ({ ...UNSAID, tenant: name, state: "active" }) as unknown as TenantRow;

/**
 * `adoptable` selects rows that never had a code. `between` runs between the approval and the coding of rows.
 */
async function adopt(
  stored: { keys: KeyRow[]; tenants: TenantRow[] },
  adoptable: (kind: StateKind, name: string) => boolean,
  between: () => void = () => {},
) {
  const records: AuditEntry[] = [];
  const coded: string[] = [];
  let turns = 0;
  const client = {
    async query(text: string, values: unknown[] = []) {
      if (text.startsWith("select")) {
        return { rows: text.includes("from keys") ? stored.keys : stored.tenants };
      }
      const names = values[1] as string[];
      coded.push(...names);
      stored.keys = stored.keys.filter(({ key_id }) => !names.includes(key_id));
      stored.tenants = stored.tenants.filter((row) => !names.includes(row.tenant));
      return { rows: [] };
    },
  } as unknown as pg.Client;
  const journal = {
    async change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>): Promise<T> {
      turns += 1;
      if (turns === 3) between();
      const { value, entry } = await apply(client, turns);
      if (entry !== undefined) records.push(entry);
      return value;
    },
  } as unknown as Journal;
  const withCode = <Row>(row: Row) => ({ ...row, state_mac: Buffer.alloc(32) });
  const rowCodes = {
    add: async ({ keys, tenants }: typeof stored) => ({
      keys: keys.map(withCode),
      tenants: tenants.map(withCode),
    }),
  } as unknown as RowCodes;
  const clock = testClock();
  const register = {
    isAdoptable: adoptable,
    adoptionWish() {
      const { caller, detail } = records[0] ?? {};
      if (caller === undefined) return null;
      const { rows = "" } = detail ?? {};
      const asked_at = clock.now().toISOString();
      return { action: "adopt", admin: caller.name, asked_at, rows, certificate: "alice's" } as const;
    },
  };
  const parts = { journal, register, rowCodes, store: { changed() {} }, clock, accepts: () => true };
  const ask = createAdoption(parts);
  await ask({ role: "admin", name: "alice", certificate: "alice's" });
  const outcome = await ask({ role: "admin", name: "bob", certificate: "bob's" });
  return { outcome, coded, last: records.at(-1) };
}

test("an adoption ignores rows that lost their code", async () => {
  const stored = { keys: [key("new"), key("known")], tenants: [tenant("acc-1"), tenant("acc-2")] };
  const { outcome, coded, last } = await adopt(stored, (_, name) => name === "new" || name === "acc-1");
  expect(outcome).toMatchObject({ adopted: true, keys: 1, tenants: 1 });
  expect(coded).toEqual(["new", "acc-1"]);
  expect(last?.detail).toMatchObject({ rows: "2", keys: expect.stringMatching(/^new=[0-9a-f]{64}$/) });
  expect(last?.detail?.tenants).toMatch(/^acc-1=[0-9a-f]{64}$/);
});

test("an adoption skips a key or tenant that is altered after the second admin's approval", async () => {
  const stored = { keys: [key("k-1"), key("k-2")], tenants: [tenant("acc-1"), tenant("acc-2")] };
  const { outcome, coded } = await adopt(
    stored,
    () => true,
    () => {
      stored.keys = [{ ...key("k-1"), ceiling: null }, key("k-2")];
      stored.tenants = [{ ...tenant("acc-1"), state: "destroying" }, tenant("acc-2")];
    },
  );
  expect(outcome).toMatchObject({ adopted: true, keys: 2, tenants: 2 });
  expect(coded).toEqual(["k-2", "acc-2"]);
});

test("an adoption skips a row that no vault wrote and adopts the others", async () => {
  const keys = [{ ...key("odd"), ceiling: ["\ud800"] }, key("even")];
  const tenants = [
    { ...tenant("acc-1"), pending: { action: "x".repeat(600_000) } as never },
    tenant("acc-2"),
  ];
  const { outcome, coded } = await adopt({ keys, tenants }, () => true);
  expect(outcome).toMatchObject({ adopted: true, keys: 1, tenants: 1 });
  expect(coded).toEqual(["even", "acc-2"]);
});

test("an adoption adopts more rows than one record can name, and each row once", async () => {
  const keys = Array.from({ length: 600 }, (_, index) => key(`k-${index}`));
  const { coded } = await adopt({ keys, tenants: [tenant("acc-1")] }, () => true);
  expect(coded).toHaveLength(601);
  expect(new Set(coded).size).toBe(601);
});
