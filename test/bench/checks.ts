import { fileURLToPath } from "node:url";
import { apiEnvironment, startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { report } from "./results/report.ts";
import { figureOf, measureInTurns } from "./verify/in_turns.ts";
import { startPeer } from "./verify/peer.ts";
import { createVerifiers } from "./verify/proofs.ts";

/**
 * Decisions that are kept, charged and told to Kafka, against the same checks that end where the statement
 * would be sent, in turns. `node test/bench/checks.ts`.
 */
const ROUNDS = 5;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = [16, 64];
const BARE_CHECKS = fileURLToPath(new URL("verify/bare_checks.ts", import.meta.url));

await withBenchDatabase({}, async ({ db, pool, url, folder }) => {
  const verifiers = await createVerifiers(db);
  // Rows of the history are handed on then, which is what an event of a decision costs.
  await pool.query("update event_way set way = 'kafka'");
  const api = await startApiProcess(folder, url, verifiers.sealingKey);
  try {
    const env = await apiEnvironment(folder, url, verifiers.sealingKey);
    const bare = await startPeer(`exec '${process.execPath}' '${BARE_CHECKS}'`, env, folder);
    const servers = { kept: api.port, bare: Number(env.PORT) };
    try {
      const record = await measureInTurns({
        servers,
        verifiers,
        folder,
        connections: CONNECTIONS,
        rounds: ROUNDS,
        proofsARound: PROOFS_A_ROUND,
      });
      report({ figures: record.figures(), ratios: CONNECTIONS.flatMap(ratiosOf) });
    } finally {
      await bare.stop();
    }
  } finally {
    await api.stop();
  }
});

function ratiosOf(connections: number): Ratio[] {
  const [kept, bare] = [figureOf("kept", connections), figureOf("bare", connections)];
  return [
    { name: `rate, kept / bare, ${connections} connections`, over: kept, under: bare },
    {
      name: `p99, kept / bare, ${connections} connections`,
      over: `${kept}: p99`,
      under: `${bare}: p99`,
      aim: { atMost: 1.5 },
    },
  ];
}
