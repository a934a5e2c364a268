import { createHash } from "node:crypto";
import { systemClock } from "../../../src/clock.ts";
import { openDatabase } from "../../../src/db/database.ts";
import { startServer } from "../../../src/http/server/server.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { createApiKeyFinder } from "../../../src/platforms/api_keys/api_key_finder.ts";
import { createDecisionQueue } from "../../../src/proofs/admission/admission.ts";
import { createRefusals } from "../../../src/proofs/admission/refused_proofs.ts";
import type { DecisionOutcome } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import { lowerPoolPriority } from "../../../src/proofs/pool_threads.ts";
import { createChallengeKeys } from "../../../src/proofs/present/challenge.ts";
import { createProofRefResolver } from "../../../src/proofs/present/proof_ref.ts";
import { createRootFinder } from "../../../src/proofs/verify/verdict.ts";
import { verifyRoute } from "../../../src/proofs/verify/verify_proof.ts";
import { createCertificateMemory } from "../../../src/protocol/documents/certificate_memory.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { createBareApp } from "../../support/bare_app.ts";

/** The API's `verify` without its SQL statement: nothing is spent, charged or stored. Only for benches. */
const { DATABASE_URL: url = "", SEALING_KEY = "", PORT, BASE_URL = "" } = process.env;
const clock = systemClock;
const onError = () => {};
const db = openDatabase({ url, name: "bare-checks", onError });
const metrics = createMetrics();
const secretBox = createSecretBox(Buffer.from(SEALING_KEY, "base64"));
const never = () => Promise.reject(new Error("bare checks support no operations"));

const verify = verifyRoute({
  keys: createChallengeKeys({ db, secretBox }),
  secretBox,
  findRoot: createRootFinder(db),
  resolveProofRef: createProofRefResolver(db),
  findRecorded: never,
  memory: createCertificateMemory(20_000),
  decide: async (item) => outcomeOf(item),
  lockCertificates: never,
  isAccepted: never,
  refusals: createRefusals({ perMinute: 100_000, clock }),
  repeats: { guard: never },
  queue: createDecisionQueue(metrics),
  metrics,
  clock,
  askEndpoint: BASE_URL,
});

const app = createBareApp({
  routes: [verify],
  metrics,
  baseUrl: BASE_URL,
  findApiKey: createApiKeyFinder({ db, clock, url, onError }).find,
});
await lowerPoolPriority();
await startServer(app, { host: "127.0.0.1", port: Number(PORT) });

function outcomeOf(item: DecisionItem): DecisionOutcome {
  const granted = JSON.stringify(item.decision === "allow" ? item.grantedScope : []);
  const said = `"decision":"${item.decision}","decision_reason":"${item.reason}","granted_scope":${granted}`;
  const receipt = `${item.receiptHead}${said}${item.receiptTail}`;
  const receiptHash = createHash("sha256").update(receipt).digest();
  return { kind: "decided", decision: item.decision, reason: item.reason, receipt, receiptHash };
}
