import type pg from "pg";
import { expect, test } from "vitest";
import type { Change } from "../../../keyvault/audit/journal.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { createResidency } from "../../../keyvault/keys/residency.ts";
import type { Half } from "../../../keyvault/token/messages.ts";
import { SILENT, testClock } from "../fixture.ts";

/** Residency whose parts write down, in order, what is done to database, token and disk. */
function told() {
  const steps: string[] = [];
  const client = {
    async query(text: string) {
      steps.push(text.split(" ")[0] ?? "");
      return { rowCount: text.startsWith("SELECT FROM residents WHERE") ? 1 : 0, rows: [] };
    },
  } as unknown as pg.Client;
  const halves: Half[] = ["ed25519"];
  const residency = createResidency({
    journal: {
      async change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>) {
        const { value } = await apply(client, 1);
        steps.push("durable");
        return value;
      },
    },
    token: {
      info: () => ({ manufacturer: "", model: "", serial: "", keks: [], resident: halves }),
      async createResident() {
        steps.push("create half");
        return { ed25519: Buffer.alloc(32) };
      },
      async destroyResident() {
        steps.push("destroy half");
        return { destroyed: 1 };
      },
    },
    clock: testClock(),
    log: SILENT,
    limit: 1,
    async settle() {
      steps.push("settle");
    },
  });
  return { residency, steps };
}

test("a half's label is durable before the half is made, and the half is on disk before anybody has its public key", async () => {
  const { residency, steps } = told();
  const made = await residency.make();
  expect(isRefusal(made)).toBe(false);
  expect(steps).toEqual(["SELECT", "INSERT", "durable", "create half", "settle", "durable"]);
});

test("a half that no key got is gone from the disk before its label is forgotten", async () => {
  const { residency, steps } = told();
  await residency.abandon(`key-${"0".repeat(32)}`);
  expect(steps).toEqual(["SELECT", "destroy half", "settle", "DELETE", "durable"]);
});
