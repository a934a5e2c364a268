import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { GENESIS } from "../../../keyvault/audit/record.ts";
import { walkChain } from "../../../keyvault/audit/verify_chain.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";

const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);
const others = process.listeners("unhandledRejection");

afterEach(() => {
  process.removeAllListeners("unhandledRejection");
  for (const listener of others) process.on("unhandledRejection", listener);
});

test("walkChain reports a fault even if reading the next page fails", async () => {
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", note);
  const row = { seq: 2, recorded_at: new Date(0), detail: {}, mac: Buffer.alloc(32) } as AuditRow;
  let reads = 0;
  const read = async () => {
    reads += 1;
    if (reads > 1) throw new Error("no database");
    return [row];
  };
  const token = { chain: async (_: Uint8Array, texts: Uint8Array[]) => texts.map(() => Buffer.alloc(32)) };
  const pages = await Array.fromAsync(walkChain(read, token, { seq: 0, mac: GENESIS }));
  expect(pages).toMatchObject([{ fault: { seq: 1, reason: "missing" } }]);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(reads).toBe(2);
  expect(unhandled).toEqual([]);
});
