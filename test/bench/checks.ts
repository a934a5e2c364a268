import { fileURLToPath } from "node:url";
import { withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { report } from "./results/tables.ts";
import { figureOf, measureAgainst } from "./verify/in_turns.ts";

/**
 * Decisions that are kept, charged and told to Kafka, against the same checks that end where the statement
 * would be sent, in turns. `node test/bench/checks.ts`.
 */
const ROUNDS = 5;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = [16, 64];
const BARE_CHECKS = fileURLToPath(new URL("verify/bare_checks.ts", import.meta.url));

await withBenchDatabase({}, async (database) => {
  // Rows of the history are handed on then, which is what an event of a decision costs.
  await database.pool.query("update event_way set way = 'kafka'");
  const record = await measureAgainst(database, {
    command: `exec '${process.execPath}' $API_NODE_OPTIONS '${BARE_CHECKS}'`,
    ours: "kept",
    theirs: "bare",
    connections: CONNECTIONS,
    rounds: ROUNDS,
    proofsARound: PROOFS_A_ROUND,
  });
  report({ figures: record.figures(), ratios: CONNECTIONS.flatMap(ratiosOf) });
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
