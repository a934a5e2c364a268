import { createRecord, type FigureRecord } from "../results/record.ts";
import { measureLoad } from "./load.ts";
import { prove, requestOf, type Verifiers } from "./proofs.ts";

/** Servers on one database, by the names that their figures get, and over how many connections. */
export type Turns = {
  servers: Record<string, number>;
  verifiers: Verifiers;
  folder: string;
  connections: readonly number[];
  rounds: number;
  proofsARound: number;
};

/** Decisions of each server on whole bundles, in turns, after one round to warm up. */
export async function measureInTurns(turns: Turns): Promise<FigureRecord> {
  await measureRound(turns, createRecord());
  const record = createRecord();
  for (let round = 0; round < turns.rounds; round += 1) await measureRound(turns, record);
  return record;
}

async function measureRound(
  { servers, verifiers, folder, connections, proofsARound }: Turns,
  record: FigureRecord,
): Promise<void> {
  for (const each of connections) {
    for (const [name, port] of Object.entries(servers)) {
      const proofs = await prove(verifiers, proofsARound);
      const requests = proofs.map((proof) => requestOf(proof, "bundle"));
      const seen = await measureLoad({ port, folder }, requests, each);
      const what = figureOf(name, each);
      record.add(what, "a second", seen.perSecond);
      record.add(`${what}: p50`, "ms", seen.p50);
      record.add(`${what}: p99`, "ms", seen.p99);
    }
  }
}

/** The name of a server's rate; its waits have `: p50` and `: p99` behind it. */
export function figureOf(name: string, connections: number): string {
  return `${name}, ${connections} connections`;
}
