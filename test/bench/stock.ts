import { startApiProcess } from "./api_process.ts";
import { type BenchDatabase, withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { createRecord, type FigureRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { fill, type Stock } from "./stock/fill.ts";
import { measureLoad } from "./verify/load.ts";
import { createVerifiers, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Compares decisions in a database with few certificates and no history with decisions in a growing database.
 * Run `node test/bench/stock.ts [--certificates=1000000] [--history=10000000]`. With these numbers it takes a
 * quarter of an hour and 15 GB of disk.
 */
const option = (name: string, otherwise: number): number =>
  Number(process.argv.find((argument) => argument.startsWith(`--${name}=`))?.split("=")[1] ?? otherwise);
const CERTIFICATES = option("certificates", 1_000_000);
const HISTORY = option("history", 10_000_000);
const FEW: Stock = { certificates: 1_000, history: 0 };
const STEPS: readonly Stock[] = [
  { certificates: CERTIFICATES / 10, history: 0 },
  { certificates: CERTIFICATES, history: 0 },
  { certificates: CERTIFICATES, history: HISTORY },
];
const ROUNDS = 3;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = 64;

await withBenchDatabase({}, (small) =>
  withBenchDatabase({}, async (large) => {
    const sides = [await openSide(small, "few"), await openSide(large, "many")];
    const record = createRecord();
    try {
      let held: Stock = { certificates: 0, history: 0 };
      await fill(small.pool, held, FEW);
      for (const [n, stock] of STEPS.entries()) {
        await fill(large.pool, held, stock);
        held = stock;
        for (let round = 0; round <= ROUNDS; round += 1) {
          await measureRound(sides, round === 0 ? createRecord() : record, n);
        }
      }
      report({ figures: record.figures(), ratios: STEPS.flatMap(ratiosOf) });
    } finally {
      for (const { api } of sides) await api.stop();
    }
  }),
);

type Side = {
  name: "few" | "many";
  folder: string;
  verifiers: Verifiers;
  api: Awaited<ReturnType<typeof startApiProcess>>;
};

async function openSide({ db, folder, url }: BenchDatabase, name: Side["name"]): Promise<Side> {
  const verifiers = await createVerifiers(db);
  return { name, folder, verifiers, api: await startApiProcess(folder, url, verifiers.sealingKey) };
}

async function measureRound(sides: readonly Side[], record: FigureRecord, step: number): Promise<void> {
  for (const { name, folder, verifiers, api } of sides) {
    const proofs = await prove(verifiers, PROOFS_A_ROUND);
    const requests = proofs.map((proof) => requestOf(proof, "bundle"));
    const seen = await measureLoad({ port: api.port, folder }, requests, CONNECTIONS);
    record.add(nameOf(name, step), "a second", seen.perSecond);
    record.add(`${nameOf(name, step)}: p99`, "ms", seen.p99);
  }
}

function nameOf(side: Side["name"], step: number): string {
  const { certificates, history } = STEPS[step] ?? FEW;
  const what = `${certificates.toLocaleString("en")} certificates, ${history.toLocaleString("en")} of history`;
  return side === "many" ? what : `1,000 certificates, in turns with ${what}`;
}

function ratiosOf(_: Stock, step: number): Ratio[] {
  const [over, under] = [nameOf("many", step), nameOf("few", step)];
  return [
    { name: `${over} / 1,000 and none`, over, under, aim: { atLeast: 0.9 } },
    { name: `p99, ${over} / 1,000 and none`, over: `${over}: p99`, under: `${under}: p99` },
  ];
}
