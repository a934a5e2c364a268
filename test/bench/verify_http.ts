import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { measureLoad } from "./verify/load.ts";
import { createVerifiers, type Proven, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Measures the complete cost of a durable decision: verify calls over HTTP, with full bundles and with
 * references. The baseline, which alternates with the calls, is bare verification of the same signatures. Run
 * `node test/bench/verify_http.ts`.
 *
 * Client, API and Postgres share the machine. The bench therefore also reports the processor time of each,
 * which hardly depends on other load.
 */
const ROUNDS = 3;
const PROOFS_A_ROUND = 6_000;
const CASES = [
  { connections: 16, form: "bundle", authority: "own" },
  { connections: 16, form: "reference", authority: "own" },
  { connections: 64, form: "bundle", authority: "own" },
  { connections: 64, form: "reference", authority: "own" },
  { connections: 64, form: "bundle", authority: "accepted" },
] as const;
type Case = (typeof CASES)[number];
const BARE = "bare verifies";

await withBenchDatabase({}, async ({ db, url, folder, postgresPid }) => {
  const verifiers = await createVerifiers(db);
  const api = await startApiProcess(folder, url, verifiers.sealingKey);
  const place = { verifiers, api, folder, postgresPid };
  try {
    const record = await recordRounds(ROUNDS, (each) => measureRound(place, each));
    report({ figures: record.figures(), ratios: ratios() });
  } finally {
    await api.stop();
  }
});

type Place = {
  verifiers: Verifiers;
  api: Awaited<ReturnType<typeof startApiProcess>>;
  folder: string;
  postgresPid: number;
};

async function measureRound(place: Place, record: FigureRecord): Promise<void> {
  for (const [n, each] of CASES.entries()) {
    const proofs = await prove(place.verifiers, PROOFS_A_ROUND, each.authority);
    if (n === 0) await measureBare(proofs, record);
    await measureHttp(place, proofs, { each, record });
  }
}

/** Every decision must verify the challenge signatures, whatever the API has cached. */
async function measureBare(proofs: readonly Proven[], record: FigureRecord): Promise<void> {
  const before = await processorTime(process.pid);
  const start = performance.now();
  const results = await Promise.all(
    proofs.map(({ bundle }) =>
      verifyHybrid(bundle.agent_pub_key, challengeSignBytes(bundle), bundle.challenge_sig),
    ),
  );
  record.add(BARE, "a second", proofs.length / ((performance.now() - start) / 1000));
  if (!results.every(Boolean)) throw new Error("a signature did not verify");
  const used = (await processorTime(process.pid)) - before;
  record.add(`${BARE}: all`, "µs of the processor", used / proofs.length);
}

async function measureHttp(
  { api, folder, postgresPid }: Place,
  proofs: readonly Proven[],
  { each, record }: { each: Case; record: FigureRecord },
): Promise<void> {
  const requests = proofs.map((proof) => requestOf(proof, each.form));
  const used = () => Promise.all([processorTime(api.pid), processorTimeWithChildren(postgresPid)]);
  const before = await used();
  const seen = await measureLoad({ port: api.port, folder }, requests, each.connections);
  const [apiTime, postgresTime] = (await used()).map((time, part) => time - (before[part] ?? 0));
  const name = nameOf(each);
  record.add(name, "a second", seen.perSecond);
  record.add(`${name}: p50`, "ms", seen.p50);
  record.add(`${name}: p99`, "ms", seen.p99);
  record.add(`${name}: API`, "µs of the processor", (apiTime ?? 0) / proofs.length);
  record.add(`${name}: Postgres`, "µs of the processor", (postgresTime ?? 0) / proofs.length);
  record.add(`${name}: client`, "µs of the processor", seen.cpuMicroseconds / proofs.length);
}

function nameOf({ connections, form, authority }: Case): string {
  const whose = authority === "own" ? "" : ", an accepted principal's";
  return `decisions by ${form}, ${connections} connections${whose}`;
}

function ratios(): Ratio[] {
  const own = CASES.filter(({ authority }) => authority === "own");
  const overBare = own
    .filter(({ form }) => form === "bundle")
    .map((each): Ratio => ({ ...between(nameOf(each), BARE), aim: { atLeast: 0.4 } }));
  const byReference = own
    .filter(({ form }) => form === "reference")
    .map(
      (each): Ratio => ({
        ...between(nameOf(each), nameOf({ ...each, form: "bundle" } as Case)),
        aim: { atLeast: 1.25 },
      }),
    );
  return [...overBare, ...byReference];
}

function between(over: string, under: string): Ratio {
  return { name: `${over} / ${under}`, over, under };
}
