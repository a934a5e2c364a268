import type pg from "pg";
import { expect, test } from "vitest";
import type { Change } from "../../../keyvault/audit/journal.ts";
import type { ResidentKey } from "../../../keyvault/audit/register/register_parts.ts";
import { createResidentSweeping } from "../../../keyvault/lifecycle/sweep_residents.ts";

const LABEL = `key-${"0".repeat(32)}`;
const OWNER = { keyId: "1".repeat(32), tenant: "acc-1" };

/**
 * Sweeping of one label that no key has; `before` is done to what the audit says when the sweep's turn
 * arrives.
 */
function sweepOf(before: (residents: Map<string, ResidentKey>) => void, owner?: ResidentKey) {
  const residents = new Map<string, ResidentKey>([[LABEL, owner]]);
  const destroyed: string[] = [];
  const steps: unknown[] = [];
  const sweep = createResidentSweeping({
    journal: {
      async change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>) {
        before(residents);
        const query = async (text: string) => void steps.push(text.split(" ")[0]);
        const { value, entry } = await apply({ query } as unknown as pg.Client, 1);
        steps.push(entry);
        return value;
      },
    },
    register: { residents: () => residents, isErased: () => owner !== undefined },
    residency: { isUnderWay: () => false },
    token: {
      listResidents: async () => ({ labels: [LABEL] }),
      async destroyResident(label) {
        destroyed.push(label);
        steps.push("destroy half");
        return { destroyed: 1 };
      },
    },
    flush: async () => void steps.push("flush"),
  });
  return { sweep, destroyed, steps };
}

test("a half without a key is destroyed", async () => {
  const { sweep, destroyed } = sweepOf(() => {});
  expect(await sweep()).toBe(1);
  expect(destroyed).toEqual([LABEL]);
});

test.each<[string, (residents: Map<string, ResidentKey>) => void]>([
  ["has got its key, as the chain says after a lost connection", (residents) => residents.set(LABEL, OWNER)],
  ["was destroyed by another sweep", (residents) => residents.delete(LABEL)],
])("a half is left alone that, when the sweep's turn comes, %s", async (_, before) => {
  const { sweep, destroyed } = sweepOf(before);
  expect(await sweep()).toBe(0);
  expect(destroyed).toEqual([]);
});

test("a half is gone from the disk before its label is forgotten, and the record says whose it was", async () => {
  const { sweep, steps } = sweepOf(() => {}, OWNER);
  expect(await sweep()).toBe(1);
  expect(steps).toEqual([
    "destroy half",
    "flush",
    "delete",
    expect.objectContaining({ statement: "resident_erase", keyId: OWNER.keyId, detail: { label: LABEL } }),
  ]);
});
