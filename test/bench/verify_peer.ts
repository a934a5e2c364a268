import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { apiEnvironment, nodeOptionsOf, startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { measureLoad } from "./verify/load.ts";
import { startPeer } from "./verify/peer.ts";
import { createVerifiers, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Compares our decisions, which are stored, charged and published to Kafka, with the decisions of a second
 * server. Both servers alternate within one run. Run `node test/bench/verify_peer.ts [--peer <command>]`.
 *
 * Without a command, the peer runs our API's own checks without the SQL statement. The shell runs a command
 * with our API's environment, the same database, and a different `PORT`. The command may start any verifier
 * that answers `POST /v1/service/verify` with `"decision":"allow"` or `"valid":true`. `API_NODE_OPTIONS`
 * contains Node options for our API.
 */
const ROUNDS = 5;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = [16, 64];
const BARE_CHECKS = fileURLToPath(new URL("verify/bare_checks.ts", import.meta.url));

const options = { peer: { type: "string" }, json: { type: "boolean" } } as const;
const { peer: named } = parseArgs({ options }).values;
const command = named ?? `exec '${process.execPath}' $API_NODE_OPTIONS '${BARE_CHECKS}'`;

await withBenchDatabase({}, async ({ db, pool, url, folder }) => {
  // Selects Kafka, so that a decision's cost includes queuing its event for Kafka.
  await pool.query("update event_way set way = 'kafka'");
  const verifiers = await createVerifiers(db);
  const api = await startApiProcess(folder, url, verifiers.sealingKey);
  try {
    const env = await apiEnvironment(url, verifiers.sealingKey);
    const given = { API_NODE_OPTIONS: nodeOptionsOf(api.pid) };
    const peer = await startPeer(command, { ...env, ...given }, folder);
    const servers = { ours: api.port, peer: Number(env.PORT) };
    try {
      const record = await recordRounds(ROUNDS, (each) => measureRound({ servers, verifiers, folder }, each));
      report({ figures: record.figures(), ratios: CONNECTIONS.flatMap(ratiosOf) });
    } finally {
      await peer.stop();
    }
  } finally {
    await api.stop();
  }
});

type Place = { servers: Record<string, number>; verifiers: Verifiers; folder: string };

async function measureRound({ servers, verifiers, folder }: Place, record: FigureRecord): Promise<void> {
  for (const connections of CONNECTIONS) {
    for (const [name, port] of Object.entries(servers)) {
      const proofs = await prove(verifiers, PROOFS_A_ROUND);
      const requests = proofs.map((proof) => requestOf(proof, "bundle"));
      const seen = await measureLoad({ port, folder }, requests, connections);
      const what = `${name}, ${connections} connections`;
      record.add(what, "a second", seen.perSecond);
      record.add(`${what}: p50`, "ms", seen.p50);
      record.add(`${what}: p99`, "ms", seen.p99);
    }
  }
}

function ratiosOf(connections: number): Ratio[] {
  const [ours, peer] = [`ours, ${connections} connections`, `peer, ${connections} connections`];
  const aim = named === undefined ? { aim: { atMost: 1.5 } } : {};
  return [
    { name: `rate, ${connections} connections`, over: ours, under: peer },
    { name: `p99, ${connections} connections`, over: `${ours}: p99`, under: `${peer}: p99`, ...aim },
  ];
}
