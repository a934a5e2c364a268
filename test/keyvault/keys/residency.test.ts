import type pg from "pg";
import { pino } from "pino";
import { expect, test } from "vitest";
import type { Change } from "../../../keyvault/audit/journal.ts";
import type { ResidentKey } from "../../../keyvault/audit/register/register_parts.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { createResidency, type ResidencyParts } from "../../../keyvault/keys/residency.ts";
import type { Half } from "../../../keyvault/token/messages.ts";
import { SILENT, testClock } from "../fixture.ts";

/** Residency whose parts write down, in order, what is done to database, token and disk. */
function told(labels: string[] = [], other: Partial<ResidencyParts> = {}) {
  const steps: string[] = [];
  const client = {
    async query(text: string) {
      steps.push(text.split(" ")[0] ?? "");
      return { rowCount: 0, rows: [] };
    },
  } as unknown as pg.Client;
  const halves: Half[] = ["ed25519"];
  const residents = new Map<string, ResidentKey>(labels.map((label) => [label, undefined]));
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
    register: { residents: () => residents },
    clock: testClock(),
    log: SILENT,
    limit: 1,
    async flush() {
      steps.push("flush");
    },
    ...other,
  });
  return { residency, steps };
}

test("a half's label is durable before the half is made, and the half is on disk before anybody has its public key", async () => {
  const { residency, steps } = told();
  const made = await residency.make();
  expect(isRefusal(made)).toBe(false);
  expect(steps).toEqual(["insert", "durable", "create half", "flush", "durable"]);
});

test("a label is under way from before its half is made until its making ends, well or not", async () => {
  const { residency, steps } = told();
  const made = await residency.make();
  if (isRefusal(made)) throw new Error(made.message);
  expect(residency.isUnderWay(made.label)).toBe(true);
  await residency.abandon(made.label);
  expect(residency.isUnderWay(made.label)).toBe(false);
  expect(steps).not.toContain("destroy half");
});

test("a half that no key got is gone from the disk before its label is forgotten", async () => {
  const label = `key-${"0".repeat(32)}`;
  const { residency, steps } = told([label]);
  await residency.abandon(label);
  expect(steps).toEqual(["destroy half", "flush", "delete", "durable"]);
});

test("a half that cannot be destroyed is left to a later sweep, and reported", async () => {
  const lines: object[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  const label = `key-${"0".repeat(32)}`;
  const journal = { change: () => Promise.reject(new Error("no database")) };
  const { residency, steps } = told([label], { log, journal });
  await residency.abandon(label);
  expect(lines).toMatchObject([{ level: 40, event: "resident_left", label, reason: "no database" }]);
  expect(steps).toEqual([]);
});

test.each([
  ["switched off", { limit: 0 }],
  ["no room", { limit: 1, register: { residents: () => new Map([["key-a", undefined]]) } }],
])("with %s nothing is made in the token", async (_, other) => {
  const { residency, steps } = told([], other);
  expect(await residency.make()).toMatchObject({ refused: "policy_violation" });
  expect(steps.filter((step) => step !== "durable")).toEqual([]);
});
