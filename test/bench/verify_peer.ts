import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { goProgram } from "../support/go_program.ts";
import { withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { report } from "./results/tables.ts";
import { figureOf, measureAgainst } from "./verify/in_turns.ts";

/**
 * Our decisions against those of another server, in turns in one run, each proof used once. `node
 * test/bench/verify_peer.ts [--peer <command>]`. Without a command the peer is a verifier in Go that keeps
 * all that it knows in memory. The shell runs a command with the environment that our own API gets, on the
 * same database, and another `PORT`: it may be an earlier version of this service, or any verifier that
 * answers `POST /v1/service/verify` with `"decision":"allow"` or `"valid":true`.
 */
const ROUNDS = 3;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = [16, 64];

const command = await peerCommand();

await withBenchDatabase({}, async (database) => {
  const record = await measureAgainst(database, {
    command,
    ours: "Deputize",
    theirs: "the peer",
    connections: CONNECTIONS,
    rounds: ROUNDS,
    proofsARound: PROOFS_A_ROUND,
  });
  report({ figures: record.figures(), ratios: CONNECTIONS.flatMap(ratiosOf) });
});

function ratiosOf(connections: number): Ratio[] {
  const [ours, theirs] = [figureOf("Deputize", connections), figureOf("the peer", connections)];
  return [
    { name: `rate, ${connections} connections`, over: ours, under: theirs },
    { name: `p99, ${connections} connections`, over: `${ours}: p99`, under: `${theirs}: p99` },
  ];
}

/** The command that was named, or that of the verifier in Go, which is built on first use. */
async function peerCommand(): Promise<string> {
  const { peer } = parseArgs({ options: { peer: { type: "string" }, json: { type: "boolean" } } }).values;
  if (peer !== undefined) return peer;
  const program = await goProgram({
    sources: fileURLToPath(new URL("verify/plain_verifier", import.meta.url)),
    name: "plain_verifier",
    folder: "plain-verifier",
    what: "a verifier to compare with",
  });
  if (program.path !== undefined) return program.path;
  console.error(`SKIPPED, missing: ${program.missing}; or name a server: --peer <command>`);
  process.exit(0);
}
