import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { challengeDay, createChallengeKeys, issueChallenge } from "../../src/proofs/present/challenge.ts";
import { encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { type Agent, openAgents } from "./memory/agents.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { startBenchVault } from "./vault/place.ts";
import { measureLoad } from "./verify/load.ts";
import { httpRequest } from "./verify/proofs.ts";

/** Measures challenges and presented proofs over HTTP, each separately. Run `node test/bench/present.ts`. */
const ROUNDS = 5;
const CONNECTIONS = 64;
const CHALLENGES = 20_000;
const PRESENTS = 3_000;
const AGENTS = 200;
const [CHALLENGES_AIM, PRESENTS_AIM] = ["required challenges", "required proofs"];

await withBenchDatabase({}, async ({ db, url, folder, postgres }) => {
  const sealingKey = randomBytes(32);
  const vault = await startBenchVault(postgres, folder, "vault");
  try {
    const agents = await openAgents({ db, vault: vault.client }, AGENTS);
    const keys = createChallengeKeys({ db, secretBox: createSecretBox(sealingKey) });
    const api = await startApiProcess(folder, url, sealingKey, {
      VAULT_URL: vault.url,
      VAULT_CA_FILE: join(vault.config.tlsDir, "ca.pem"),
      VAULT_CERT_FILE: join(vault.config.tlsDir, "api.pem"),
      VAULT_KEY_FILE: join(vault.config.tlsDir, "api.key"),
      PRESENT_PER_MINUTE: "10000000",
    });
    const place = { port: api.port, folder };
    const inTurns = (count: number) =>
      Array.from({ length: count }, (_, n) => agents[n % agents.length] as Agent);

    async function presentOf({ apiKey, connectionId, agentId }: Agent): Promise<Buffer> {
      const now = new Date();
      const challenge = issueChallenge(await keys.forIssuing(challengeDay(now), now), connectionId, now);
      const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
      return httpRequest(path, apiKey, { challenge: encodeBase64(challenge) });
    }

    async function measureRound(record: FigureRecord): Promise<void> {
      const challenges = inTurns(CHALLENGES).map(({ apiKey }) =>
        httpRequest("/v1/service/challenge", apiKey, {}),
      );
      const presents = await Promise.all(inTurns(PRESENTS).map(presentOf));
      for (const [name, requests] of Object.entries({ challenges, presents })) {
        const seen = await measureLoad(place, requests, CONNECTIONS);
        record.add(name, "a second", seen.perSecond);
        record.add(`${name}: p50`, "ms", seen.p50);
        record.add(`${name}: p99`, "ms", seen.p99);
      }
      record.add(CHALLENGES_AIM, "a second", 6_000);
      record.add(PRESENTS_AIM, "a second", 600);
    }

    try {
      const record = await recordRounds(ROUNDS, measureRound);
      report({ figures: record.figures(), ratios: ratios() });
    } finally {
      await api.stop();
    }
  } finally {
    await vault.close();
  }
});

function ratios(): Ratio[] {
  return [
    { name: "challenges / aim", over: "challenges", under: CHALLENGES_AIM, aim: { atLeast: 1 } },
    { name: "presents / aim", over: "presents", under: PRESENTS_AIM, aim: { atLeast: 1 } },
  ];
}
