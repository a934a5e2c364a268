import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { measureLoad } from "./verify/load.ts";
import { createCustomers, createVerifiers, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Measures decisions over HTTP at customer connections against decisions at own connections, which alternate.
 * A decision at a customer connection also writes the customer's history. On a busy machine, processor time
 * varies less than the rate. Run `node test/bench/verify_customers.ts`.
 */
const ROUNDS = 7;
const PROOFS_A_ROUND = 2_000;
const CONNECTIONS = [16, 64];
const KINDS = ["own", "customer"] as const;
type Kind = (typeof KINDS)[number];

await withBenchDatabase({}, async ({ db, url, folder, postgresPid }) => {
  const own = await createVerifiers(db);
  const verifiers = { own, customer: await createCustomers(db, own) };
  const api = await startApiProcess(folder, url, own.sealingKey);
  const place = { verifiers, api, folder, postgresPid };
  let round = 0;
  try {
    const record = await recordRounds(ROUNDS, async (each) => {
      const kinds = round % 2 === 0 ? KINDS : KINDS.toReversed();
      round += 1;
      for (const connections of CONNECTIONS) {
        for (const kind of kinds) await measure(place, { kind, connections, record: each });
      }
    });
    report({ figures: record.figures(), ratios: CONNECTIONS.flatMap(ratiosOf) });
  } finally {
    await api.stop();
  }
});

type Place = {
  verifiers: Record<Kind, Verifiers>;
  api: Awaited<ReturnType<typeof startApiProcess>>;
  folder: string;
  postgresPid: number;
};

async function measure(
  { verifiers, api, folder, postgresPid }: Place,
  { kind, connections, record }: { kind: Kind; connections: number; record: FigureRecord },
): Promise<void> {
  const proofs = await prove(verifiers[kind], PROOFS_A_ROUND);
  const requests = proofs.map((proof) => requestOf(proof, "bundle"));
  const used = () => Promise.all([processorTime(api.pid), processorTimeWithChildren(postgresPid)]);
  const before = await used();
  const seen = await measureLoad({ port: api.port, folder }, requests, connections);
  const [apiTime = 0, postgresTime = 0] = (await used()).map((time, part) => time - (before[part] ?? 0));
  const name = nameOf(kind, connections);
  record.add(name, "a second", seen.perSecond);
  record.add(`${name}: p99`, "ms", seen.p99);
  record.add(`${name}: API and Postgres`, "µs of the processor", (apiTime + postgresTime) / proofs.length);
  record.add(`${name}: Postgres`, "µs of the processor", postgresTime / proofs.length);
}

function nameOf(kind: Kind, connections: number): string {
  return `decisions at ${kind} connections, ${connections} calls at a time`;
}

function ratiosOf(connections: number): Ratio[] {
  const [own, customer] = KINDS.map((kind) => nameOf(kind, connections)) as [string, string];
  const both = ": API and Postgres";
  return [
    { name: `rate, customer / own, ${connections}`, over: customer, under: own, aim: { atLeast: 0.93 } },
    {
      name: `processor time, own / customer, ${connections}`,
      ...{ over: `${own}${both}`, under: `${customer}${both}`, aim: { atLeast: 0.93 } },
    },
    {
      name: `Postgres' time, customer / own, ${connections}`,
      ...{ over: `${customer}: Postgres`, under: `${own}: Postgres` },
    },
  ];
}
