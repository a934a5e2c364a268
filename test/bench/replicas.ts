import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Database } from "../../src/db/database.ts";
import { insertRecords, type Records } from "../proofs/records.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import type { Done, Mode, Work } from "./replicas/decider.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentiles } from "./timing.ts";
import { measureLoad, prepareLoad } from "./verify/load.ts";
import { createVerifiers, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Measures whether more API processes make fewer decisions: 1, 2, 4 and 8 processes share 64 calls in flight.
 * At the statement, the cases alternate with decisions that lock one balance row for each account, and with
 * transactions that only store the same rows. The latter show what the machine permits. In another case,
 * each process has 64 calls in flight. Over HTTP, the calls of ten accounts go to all processes. Run
 * `node test/bench/replicas.ts`.
 */
const ROUNDS = 3;
const PROCESSES = [1, 2, 4, 8] as const;
const IN_FLIGHT = 64;
const MS = 2_000;
const PROOFS_A_ROUND = 4_000;
/** Each process warms up alone. Otherwise one of eight processes is colder than the only one. */
const WARM = { ms: 1_500, proofs: 1_000, connections: 16 };
const CREDIT = 1e12;

type Case = { name: string; accounts: "32" | "one" | "postpaid"; mode: Mode; each?: true; aims?: true };
const CASES: readonly Case[] = [
  { name: "32 accounts", accounts: "32", mode: "decision", aims: true },
  { name: "one account", accounts: "one", mode: "decision", aims: true },
  { name: "one postpaid account", accounts: "postpaid", mode: "decision", aims: true },
  { name: "32 accounts, one row each", accounts: "32", mode: "one row each" },
  { name: "bare rows of one account", accounts: "postpaid", mode: "bare rows" },
  { name: "one account, 64 calls in each process", accounts: "one", mode: "decision", each: true },
];
const HTTP = "over HTTP";

await withBenchDatabase({}, async ({ db, url, folder }) => {
  const verifiers = await createVerifiers(db);
  const most = Math.max(...PROCESSES);
  const deciders = Array.from({ length: most }, () =>
    fork(fileURLToPath(new URL("replicas/decider.ts", import.meta.url))),
  );
  const apis: Awaited<ReturnType<typeof startApiProcess>>[] = [];
  for (let n = 0; n < most; n += 1) apis.push(await startApiProcess(folder, url, verifiers.sealingKey));
  const place: Place = { url, folder, verifiers, accounts: await createAccounts(db) };
  try {
    await warmUp(place, deciders, apis);
    const record = await recordRounds(ROUNDS, async (round) => {
      for (const each of CASES) {
        for (const count of PROCESSES) {
          await measureStatement(place, { deciders: deciders.slice(0, count), each }, round);
        }
      }
      for (const count of PROCESSES) await measureHttp(place, apis.slice(0, count), round);
    });
    report({ figures: record.figures(), ratios: ratios() });
  } finally {
    for (const decider of deciders) decider.disconnect();
    for (const api of apis) await api.stop();
  }
});

type Accounts = Record<Case["accounts"], Records[]>;
type Place = { url: string; folder: string; verifiers: Verifiers; accounts: Accounts };

async function createAccounts(db: Database): Promise<Accounts> {
  const insert = (count: number) =>
    Promise.all(Array.from({ length: count }, () => insertRecords(db, CREDIT)));
  const postpaid = await insert(1);
  await db("balances")
    .where({ account_id: postpaid[0]?.accountId ?? "" })
    .update({ terms: "postpaid" });
  return { "32": await insert(32), one: await insert(1), postpaid };
}

async function warmUp(place: Place, deciders: ChildProcess[], apis: { port: number }[]): Promise<void> {
  for (const decider of deciders) {
    for (const { accounts, mode } of CASES) await load(place, decider, { accounts, mode, ms: WARM.ms });
  }
  for (const { port } of apis) {
    await measureLoad({ port, folder: place.folder }, await requests(place, WARM.proofs), WARM.connections);
  }
}

async function load(
  { url, accounts }: Place,
  decider: ChildProcess,
  work: Pick<Case, "accounts" | "mode"> & { ms: number; inFlight?: number },
): Promise<Done> {
  const { ms, mode, inFlight = IN_FLIGHT } = work;
  decider.send({ url, accounts: accounts[work.accounts], inFlight, ms, mode } satisfies Work);
  const [done] = (await once(decider, "message")) as [Done];
  return done;
}

async function measureStatement(
  place: Place,
  { deciders, each }: { deciders: ChildProcess[]; each: Case },
  record: FigureRecord,
): Promise<void> {
  const inFlight = each.each ? IN_FLIGHT : IN_FLIGHT / deciders.length;
  const done = await Promise.all(
    deciders.map((decider) => load(place, decider, { ...each, inFlight, ms: MS })),
  );
  const sum = (of: (each: Done) => number) => done.reduce((total, ended) => total + of(ended), 0);
  const name = nameOf(each.name, deciders.length);
  record.add(name, "a second", sum(({ decided }) => decided) / (MS / 1000));
  record.add(`${name}: p99`, "ms", percentiles(done.flatMap(({ waits }) => waits)).p99);
  record.add(
    `${name}: failed`,
    "calls",
    sum(({ failed }) => failed),
  );
}

async function requests({ verifiers }: Place, count: number): Promise<Buffer[]> {
  return (await prove(verifiers, count)).map((proof) => requestOf(proof, "bundle"));
}

async function measureHttp(place: Place, apis: { port: number }[], record: FigureRecord): Promise<void> {
  const ports = apis.map(({ port }) => port);
  const proofs = await requests(place, PROOFS_A_ROUND);
  const run = await prepareLoad({ port: ports, folder: place.folder }, proofs, { connections: IN_FLIGHT });
  const seen = await run.run();
  const name = nameOf(HTTP, apis.length);
  record.add(name, "a second", seen.perSecond);
  record.add(`${name}: p99`, "ms", seen.p99);
  record.add(`${name}: failed`, "calls", seen.refused + seen.other);
}

function nameOf(each: string, processes: number): string {
  return `${each}, ${processes} ${processes === 1 ? "process" : "processes"}`;
}

function ratios(): Ratio[] {
  const measured = [...CASES, { name: HTTP, aims: true }];
  return measured.flatMap(({ name, aims = false }) =>
    PROCESSES.slice(1).flatMap((count): Ratio[] => {
      const aim = aims && count === 8;
      const pair = (part: string) => ({
        over: `${nameOf(name, count)}${part}`,
        under: `${nameOf(name, 1)}${part}`,
      });
      return [
        { name: `${nameOf(name, count)} / 1`, ...pair(""), ...(aim && { aim: { atLeast: 0.8 } }) },
        { name: `p99: ${nameOf(name, count)} / 1`, ...pair(": p99"), ...(aim && { aim: { atMost: 2 } }) },
      ];
    }),
  );
}
