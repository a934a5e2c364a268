import { apiEnvironment, nodeOptionsOf, startApiProcess } from "../api_process.ts";
import type { BenchDatabase } from "../database.ts";
import { type FigureRecord, recordRounds } from "../results/record.ts";
import { measureLoad } from "./load.ts";
import { startPeer } from "./peer.ts";
import { createVerifiers, prove, requestOf, type Verifiers } from "./proofs.ts";

/** What our decisions are held against, and the names that the figures of both get. */
export type Against = {
  /** Starts the other server, as `startPeer` takes it. `API_NODE_OPTIONS` has the options of our Node. */
  command: string;
  ours: string;
  theirs: string;
  connections: readonly number[];
  rounds: number;
  proofsARound: number;
};

/** Decisions on whole bundles, ours and those of another server on the same database, in turns. */
export async function measureAgainst(
  { db, url, folder }: BenchDatabase,
  { command, ours, theirs, ...turns }: Against,
): Promise<FigureRecord> {
  const verifiers = await createVerifiers(db);
  const api = await startApiProcess(folder, url, verifiers.sealingKey);
  try {
    const env = await apiEnvironment(folder, url, verifiers.sealingKey);
    const given = { API_NODE_OPTIONS: nodeOptionsOf(api.pid) };
    const peer = await startPeer(command, { ...env, ...given }, folder);
    const servers = { [ours]: api.port, [theirs]: Number(env.PORT) };
    try {
      return await recordRounds(turns.rounds, (record) =>
        measureRound({ servers, verifiers, folder, ...turns }, record),
      );
    } finally {
      await peer.stop();
    }
  } finally {
    await api.stop();
  }
}

type Turns = Pick<Against, "connections" | "proofsARound"> & {
  servers: Record<string, number>;
  verifiers: Verifiers;
  folder: string;
};

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
