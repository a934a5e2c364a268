import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createRegister } from "../../../keyvault/audit/last_states.ts";
import { createSnapshots, keepSnapshots } from "../../../keyvault/audit/snapshots.ts";
import type { Database } from "../../../keyvault/db/database.ts";
import { SILENT } from "../fixture.ts";

const LOOK_MS = 10_000;
const WORTH = 20_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Runs keepSnapshots on a chain at `seq` and counts the saves. The next `failing` saves fail. */
function keeping(log = SILENT) {
  const state = { seq: 0, saved: 0, failing: 0 };
  const snapshots = {
    load: async () => [],
    async save() {
      if (state.failing-- > 0) throw new Error("no database");
      state.saved += 1;
    },
  };
  const register = { head: () => ({ seq: state.seq, mac: Buffer.alloc(32) }) };
  return { state, keeper: keepSnapshots({ snapshots, register, log }, 0) };
}

test("keepSnapshots saves once per 20,000 new records", async () => {
  const { state, keeper } = keeping();
  for (const [seq, saved] of [
    [WORTH - 1, 0],
    [WORTH, 1],
    [2 * WORTH - 1, 1],
    [2 * WORTH, 2],
  ] as const) {
    state.seq = seq;
    await vi.advanceTimersByTimeAsync(LOOK_MS);
    expect(state.saved, `at record ${seq}`).toBe(saved);
  }
  await keeper.stop();
  expect(state.saved).toBe(2);
});

test("keepSnapshots repeats a failed save at the next interval and at shutdown", async () => {
  const { state, keeper } = keeping();
  state.failing = 2;
  state.seq = WORTH;
  await vi.advanceTimersByTimeAsync(2 * LOOK_MS);
  expect(state.saved).toBe(0);
  await vi.advanceTimersByTimeAsync(LOOK_MS);
  expect(state.saved).toBe(1);
  state.failing = 1;
  state.seq = 2 * WORTH;
  await vi.advanceTimersByTimeAsync(LOOK_MS);
  await keeper.stop();
  expect(state.saved).toBe(2);
});

test("keepSnapshots logs a failed save", async () => {
  const lines: object[] = [];
  const { state, keeper } = keeping(pino({}, { write: (line) => void lines.push(JSON.parse(line)) }));
  state.failing = 1;
  state.seq = WORTH;
  await keeper.stop();
  expect(lines).toMatchObject([{ level: 40, event: "audit_register_not_saved", reason: "no database" }]);
});

test("saving a snapshot blocks neither the token nor the process for long", async () => {
  let [turns, most, ended] = [0, 0, false];
  const token = {
    async authenticate(texts: Uint8Array[]) {
      most = Math.max(most, texts.length);
      return texts.map(() => Buffer.alloc(32));
    },
  };
  const database = { raw: async () => {} } as unknown as Database;
  const count = () => {
    turns += 1;
    if (!ended) setImmediate(count);
  };
  setImmediate(count);
  await createSnapshots({ database, token, register: createRegister() }).save();
  ended = true;
  expect(most, "parts that the token codes in one call").toBeLessThanOrEqual(16);
  expect(turns, "turns of other work between 257 parts").toBeGreaterThan(100);
});
