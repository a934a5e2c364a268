import type { Pool } from "pg";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { rootOf } from "../input/url.ts";
import type { Metrics } from "../metrics.ts";
import { createCertificateMemory } from "../protocol/documents/certificate_memory.ts";
import type { ApiKeyCaller, Route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import type { VaultClient } from "../vault/client.ts";
import { createGuards } from "./admission/admission.ts";
import type { FairQueue } from "./admission/fair_queue.ts";
import { askRoutes } from "./asking/ask_routes.ts";
import { askEndpoint } from "./asking/refusal.ts";
import { authzenMetadataRoute, evaluationRoute, evaluationsRoute } from "./authzen/routes.ts";
import { extAuthRoutes } from "./ext_auth_routes.ts";
import { createChallengeKeys } from "./present/challenge.ts";
import { challengeRoute } from "./present/challenge_route.ts";
import { presentRoute } from "./present/present_route.ts";
import { createProofRefResolver } from "./present/proof_ref.ts";
import type { TryDeps } from "./try/try_proof.ts";
import { tryRoute } from "./try/try_route.ts";
import { outcomeRoute } from "./verify/outcome_route.ts";
import { createRootFinder } from "./verify/verdict.ts";
import { type VerifyDeps, verifyRoute } from "./verify/verify_proof.ts";

const REMEMBERED_CERTIFICATES = 20_000;

/**
 * Dependencies of the proof routes. The pools serve nothing else, so no other work delays a decision.
 * `decisions` runs batches, which wait for a locked row for at most `QUICK_LOCK_MS`. `patient` runs the
 * decisions that wait longer for such a row. `rated` runs decisions on certificates with a rate limit.
 */
export type ProofDeps = {
  db: Database;
  decisions: Pool;
  patient: Pool;
  rated: Pool;
  vault: Pick<VaultClient, "signChallenge">;
  secretBox: SecretBox;
  queue: FairQueue;
  metrics: Pick<Metrics, "proofDecisions">;
  clock: Clock;
  /** Maximum number of refused proofs per connection and minute. */
  refusedPerMinute: number;
  /** Counts a person's trial like a proof of the connection. */
  keyRates: TryDeps["keyRates"];
  findApiKey(presented: string): Promise<ApiKeyCaller | undefined>;
  /** The public base URL of this service. `word` is the service's name in its paths and headers. */
  baseUrl: string;
  word: string;
};

/** Returns the routes of proofs, with the AuthZEN and gateway forms of `verify`. */
export function proofRoutes(deps: ProofDeps): Route[] {
  const { db, decisions, patient, rated, vault, secretBox, queue, metrics, clock } = deps;
  const { findApiKey, baseUrl, word } = deps;
  const keys = createChallengeKeys({ db, secretBox });
  const endpoint = askEndpoint(rootOf(baseUrl), word);
  const verify: VerifyDeps = {
    ...createGuards({ db, decisions, patient, rated, queue, perMinute: deps.refusedPerMinute, clock }),
    keys,
    findRoot: createRootFinder(db),
    resolveProofRef: createProofRefResolver(db),
    memory: createCertificateMemory(REMEMBERED_CERTIFICATES),
    secretBox,
    metrics,
    clock,
    askEndpoint: endpoint,
  };
  const evaluation = { verify, queue, registry: { db, rated }, clock };
  return [
    challengeRoute({ db, keys, clock }),
    presentRoute({ db, keys, vault, secretBox, clock, askEndpoint: endpoint }),
    verifyRoute({ ...verify, queue }),
    tryRoute({
      keys,
      db,
      vault,
      secretBox,
      askEndpoint: endpoint,
      verify,
      keyRates: deps.keyRates,
      clock,
      baseUrl,
      word,
    }),
    outcomeRoute({ db, clock }),
    evaluationRoute(evaluation),
    evaluationsRoute(evaluation),
    authzenMetadataRoute(baseUrl, endpoint),
    ...askRoutes({ db, secretBox, clock, root: rootOf(baseUrl), endpoint }),
    ...extAuthRoutes({ verify, queue, findApiKey, word }),
  ];
}
