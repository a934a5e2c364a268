import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { keepHeads } from "../../../keyvault/audit/head_file.ts";
import { createHeadNoting } from "../../../keyvault/audit/ledger.ts";
import { testClock } from "../fixture.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/**
 * A chain's head that a test moves, what is noted of it, and the log's lines. While it is `away` the token
 * takes no note.
 */
function chain() {
  const state = { seq: 0, away: false, noted: [] as number[], lines: [] as object[] };
  const log = pino({}, { write: (line) => void state.lines.push(JSON.parse(line)) });
  const head = () => ({ seq: state.seq, mac: Buffer.alloc(32, 1) });
  const token = {
    async noteHead({ seq }: { seq: number }) {
      if (state.away) throw new Error("away");
      state.noted.push(seq);
      return {};
    },
  };
  return { state, log, head, token };
}

test("the token notes a head that moved within a second, and none that did not", async () => {
  const { state, log, head, token } = chain();
  const noting = createHeadNoting(head, token, log);
  for (const seq of [0, 1, 1, 2]) {
    state.seq = seq;
    await vi.advanceTimersByTimeAsync(1_000);
  }
  await noting.stop();
  state.seq = 3;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(state.noted).toEqual([1, 2]);
});

test("while the token takes no note that is reported each second, and is made up for", async () => {
  const { state, log, head, token } = chain();
  const noting = createHeadNoting(head, token, log);
  state.seq = 1;
  state.away = true;
  await vi.advanceTimersByTimeAsync(2_000);
  await noting.stop();
  const told = { event: "audit_head_not_noted", reason: "away" };
  expect(state.lines).toMatchObject([told, told, told]);
  state.away = false;
  await noting.note();
  expect(state.noted).toEqual([1]);
});

test("the log has the head at the start, steadily, moved or not, at a sealing and at the stop", async () => {
  const { state, log, head } = chain();
  const sealed: ((reason: "asked") => void)[] = [];
  const token = { whenSealed: (listener: (reason: "asked") => void) => void sealed.push(listener) };
  const parts = { journal: { head }, token, clock: testClock(), log, file: undefined, logEveryMs: 5_000 };
  const keeping = keepHeads(parts);
  state.seq = 7;
  await vi.advanceTimersByTimeAsync(10_000);
  state.seq = 8;
  for (const listener of sealed) listener("asked");
  await keeping.stop();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(state.lines).toMatchObject([
    { event: "audit_head", seq: 0, why: "start" },
    { event: "audit_head", seq: 7, mac: "01".repeat(32), why: "steady" },
    { event: "audit_head", seq: 7, why: "steady" },
    { event: "audit_head", seq: 8, why: "sealed" },
    { event: "audit_head", seq: 8, why: "stop" },
  ]);
});
