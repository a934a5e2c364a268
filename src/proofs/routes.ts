import type { Pool } from "pg";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { createCertificateMemory } from "../protocol/certificate_memory.ts";
import type { Route } from "../route.ts";
import type { Seal } from "../seal.ts";
import type { VaultClient } from "../vault/client.ts";
import { createBatcher } from "./batch.ts";
import { createChallengeKeys } from "./challenge_keys.ts";
import { challengeRoute } from "./challenge_route.ts";
import { presentRoute } from "./present.ts";
import { createRootFinder } from "./roots.ts";
import { verifyRoute } from "./verify_route.ts";

const REMEMBERED_CERTIFICATES = 20_000;

/**
 * What the proof routes are built from. `decisions` and `rated` are pools of their own, so that nothing else delays a
 * decision, and a busy certificate with a rate delays no other.
 */
export type ProofDeps = {
  db: Database;
  decisions: Pool;
  rated: Pool;
  vault: Pick<VaultClient, "signChallenge">;
  seal: Seal;
  clock: Clock;
};

/** Challenge, present and verify. */
export function proofRoutes({ db, decisions, rated, vault, seal, clock }: ProofDeps): Route[] {
  const keys = createChallengeKeys({ db, seal });
  return [
    challengeRoute({ keys, clock }),
    presentRoute({ db, vault, clock }),
    verifyRoute({
      keys,
      findRoot: createRootFinder(db),
      memory: createCertificateMemory(REMEMBERED_CERTIFICATES),
      decide: createBatcher(decisions),
      ratedPool: rated,
      clock,
    }),
  ];
}
