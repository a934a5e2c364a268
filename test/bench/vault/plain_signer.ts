import { constants } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { type ChallengeBinding, challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { generateSeeds, importSeeds, publicKeyOf, signHybrid } from "../../../src/protocol/keys/hybrid.ts";

/**
 * A minimal signing service over mutual TLS, as a baseline: it imports two seeds, signs, and responds like
 * the vault. It has no token, audit, database or checks. `node plain_signer.ts <folder of TLS files>` prints
 * its port and exits when its standard input closes.
 */
const tls = (file: string): Buffer => readFileSync(join(process.argv[2] ?? "", file));
const seeds = generateSeeds();
const agent_pub_key = publicKeyOf(importSeeds(seeds));

const server = createServer(
  {
    ca: tls("ca.pem"),
    cert: tls("server.pem"),
    key: tls("server.key"),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: "TLSv1.3",
    secureOptions: constants.SSL_OP_NO_TICKET,
  },
  answer,
);
server.listen(0, "localhost", () => console.log(JSON.stringify(server.address() as AddressInfo)));
process.stdin.once("close", () => process.exit()).resume();

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const binding = (await json(request)) as ChallengeBinding;
  const challenge_sig = await signHybrid(importSeeds(seeds), challengeSignBytes(binding));
  const body = JSON.stringify({ agent_id: "plain", agent_pub_key, challenge_sig });
  response.writeHead(200, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
  });
  response.end(body);
}
