import pg from "pg";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { keepHeads } from "../../../keyvault/audit/head_file.ts";
import {
  closeLedger,
  createHeadNoting,
  LedgerHeld,
  openLedger,
} from "../../../keyvault/audit/writer_connection.ts";
import { createHome, testClock, type VaultHome } from "../fixture.ts";

/** Number of the advisory lock that excludes writers of other versions too. It must never change. */
const LOCK = 7_233_101;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

const open = () => openLedger(home.config.databaseUrl, async () => {});
const locks = (granted: boolean) =>
  home.sql("select from pg_locks where locktype = 'advisory' and objid = $1 and granted = $2", [
    LOCK,
    granted,
  ]);

/** Connects as a writer of another version. It keeps the lock until its connection closes. */
async function otherWriter(): Promise<pg.Client> {
  const other = new pg.Client({ connectionString: home.config.databaseUrl });
  await other.connect();
  await other.query("select pg_advisory_lock($1)", [LOCK]);
  return other;
}

test("openLedger waits while an earlier writer's connection is closing", async () => {
  const earlier = await open();
  const opening = open();
  const waits = expect.poll(() => locks(false), { timeout: 20_000, interval: 5 }).toHaveLength(1);
  expect(await Promise.race([opening.then(() => "opened"), waits.then(() => "waits")])).toBe("waits");
  await closeLedger(earlier.client);
  const { client } = await opening;
  const { rows } = await client.query("show lock_timeout");
  expect(rows, "for rows that a change holds").toEqual([{ lock_timeout: "0" }]);
  await closeLedger(client);
});

test("openLedger leaves no connection open if it gives up or its preparation fails", async () => {
  const other = await otherWriter();
  await expect(open()).rejects.toBeInstanceOf(LedgerHeld);
  await other.end();
  const failing = openLedger(home.config.databaseUrl, () => Promise.reject(new Error("not whole")));
  await expect(failing).rejects.toThrow("not whole");
  await expect.poll(() => locks(true), { timeout: 20_000 }).toEqual([]);
});

test("closeLedger resolves even if the server does not respond", async () => {
  const client = { end: () => new Promise(() => {}) } as unknown as pg.Client;
  await closeLedger(client);
  await closeLedger({ end: () => Promise.reject(new Error("gone")) } as unknown as pg.Client);
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/**
 * Returns a chain's head that a test can change, the heads noted in the token, and the log's lines. While
 * `away` is set, the token notes nothing.
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

test("createHeadNoting notes a changed head within a second, and does not note an unchanged head again", async () => {
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

test("createHeadNoting logs each failure and notes the head later", async () => {
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

test("keepHeads logs the head at startup, at intervals, at a sealing and at shutdown", async () => {
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
