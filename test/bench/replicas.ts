import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Database } from "../../src/db/database.ts";
import { insertRecords, type Records } from "../proofs/records.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import type { Done, Work } from "./replicas/decider.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentiles } from "./timing.ts";
import { prepareLoad } from "./verify/load.ts";
import { createVerifiers, prove, requestOf } from "./verify/proofs.ts";

/**
 * Measures whether more API processes make fewer decisions: 1, 2, 4 and 8 processes share 64 calls in flight.
 * At the statement, the cases alternate with decisions that lock one balance row for each account. Over HTTP,
 * the calls of ten accounts go to all processes. Run `node test/bench/replicas.ts`.
 */
const ROUNDS = 3;
const PROCESSES = [1, 2, 4, 8] as const;
const IN_FLIGHT = 64;
const MS = 2_000;
const PROOFS_A_ROUND = 2_000;
const CREDIT = 1e12;
const CASES = ["32 accounts", "one account", "one postpaid account", "32 accounts, one row each"] as const;
type Case = (typeof CASES)[number];

await withBenchDatabase({}, async ({ db, url, folder }) => {
  const accounts = await createAccounts(db);
  const verifiers = await createVerifiers(db);
  const deciders = Array.from({ length: Math.max(...PROCESSES) }, () =>
    fork(fileURLToPath(new URL("replicas/decider.ts", import.meta.url))),
  );
  const apis: Awaited<ReturnType<typeof startApiProcess>>[] = [];
  for (let n = 0; n < Math.max(...PROCESSES); n += 1) {
    apis.push(await startApiProcess(folder, url, verifiers.sealingKey));
  }
  try {
    const record = await recordRounds(ROUNDS, async (round) => {
      for (const each of CASES) {
        for (const count of PROCESSES) {
          await measureStatement(
            { deciders: deciders.slice(0, count), url, accounts: accounts[each], each },
            round,
          );
        }
      }
      for (const count of PROCESSES) {
        const proofs = await prove(verifiers, PROOFS_A_ROUND);
        const requests = proofs.map((proof) => requestOf(proof, "bundle"));
        await measureHttp({ apis: apis.slice(0, count), folder, requests }, round);
      }
    });
    report({ figures: record.figures(), ratios: ratios() });
  } finally {
    for (const decider of deciders) decider.disconnect();
    for (const api of apis) await api.stop();
  }
});

async function createAccounts(db: Database): Promise<Record<Case, Records[]>> {
  const insert = (count: number) =>
    Promise.all(Array.from({ length: count }, () => insertRecords(db, CREDIT)));
  const postpaid = await insert(1);
  await db("balances")
    .where({ account_id: postpaid[0]?.accountId ?? "" })
    .update({ terms: "postpaid" });
  return {
    "32 accounts": await insert(32),
    "one account": await insert(1),
    "one postpaid account": postpaid,
    "32 accounts, one row each": await insert(32),
  };
}

type Statement = { deciders: ChildProcess[]; url: string; accounts: Records[]; each: Case };

async function measureStatement(
  { deciders, url, accounts, each }: Statement,
  record: FigureRecord,
): Promise<void> {
  const inFlight = IN_FLIGHT / deciders.length;
  const work: Work = { url, accounts, inFlight, ms: MS, onlyBalance: each.endsWith("one row each") };
  const done = await Promise.all(
    deciders.map(async (decider) => {
      decider.send(work);
      const [ended] = (await once(decider, "message")) as [Done];
      return ended;
    }),
  );
  const sum = (of: (each: Done) => number) => done.reduce((total, ended) => total + of(ended), 0);
  const name = nameOf(each, deciders.length);
  record.add(name, "a second", sum(({ decided }) => decided) / (MS / 1000));
  record.add(`${name}: p99`, "ms", percentiles(done.flatMap(({ waits }) => waits)).p99);
  record.add(
    `${name}: failed`,
    "calls",
    sum(({ failed }) => failed),
  );
}

type Http = { apis: { port: number }[]; folder: string; requests: Buffer[] };

async function measureHttp({ apis, folder, requests }: Http, record: FigureRecord): Promise<void> {
  const loads = await Promise.all(
    apis.map(({ port }, n) =>
      prepareLoad(
        { port, folder },
        requests.filter((_, at) => at % apis.length === n),
        { connections: IN_FLIGHT / apis.length, name: `requests-${n}` },
      ),
    ),
  );
  const since = performance.now();
  const seen = await Promise.all(loads.map((load) => load.run()));
  const seconds = (performance.now() - since) / 1000;
  const name = nameOf("over HTTP", apis.length);
  record.add(name, "a second", seen.reduce((sum, { allowed }) => sum + allowed, 0) / seconds);
  record.add(`${name}: p99`, "ms", Math.max(...seen.map(({ p99 }) => p99)));
  record.add(
    `${name}: failed`,
    "calls",
    seen.reduce((sum, { refused, other }) => sum + refused + other, 0),
  );
}

function nameOf(each: string, processes: number): string {
  return `${each}, ${processes} ${processes === 1 ? "process" : "processes"}`;
}

function ratios(): Ratio[] {
  return [...CASES, "over HTTP"].flatMap((each) =>
    PROCESSES.slice(1).flatMap((count): Ratio[] => {
      const aim = count === 8 && !each.endsWith("one row each");
      const pair = (part: string) => ({
        over: `${nameOf(each, count)}${part}`,
        under: `${nameOf(each, 1)}${part}`,
      });
      return [
        { name: `${nameOf(each, count)} / 1`, ...pair(""), ...(aim && { aim: { atLeast: 0.8 } }) },
        { name: `p99: ${nameOf(each, count)} / 1`, ...pair(": p99"), ...(aim && { aim: { atMost: 2 } }) },
      ];
    }),
  );
}
