import type { Pool } from "pg";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { createCertificateMemory } from "../protocol/verify.ts";
import type { Route } from "../route.ts";
import type { Seal } from "../seal.ts";
import type { VaultClient } from "../vault/client.ts";
import { createBatcher } from "./batch.ts";
import { createChallengeKeys } from "./challenge_keys.ts";
import { challengeRoute } from "./challenge_route.ts";
import { presentRoute } from "./present.ts";
import { createRootFinder } from "./roots.ts";
import { verifyRoute } from "./verify_route.ts";

/** What the proof routes are built from. `decisions` is a pool of its own, so that nothing else delays a decision. */
export type ProofDeps = {
  db: Database;
  decisions: Pool;
  vault: Pick<VaultClient, "signChallenge">;
  seal: Seal;
  clock: Clock;
};

/** Challenge, present and verify. */
export function proofRoutes({ db, decisions, vault, seal, clock }: ProofDeps): Route[] {
  const keys = createChallengeKeys({ db, seal });
  const memory = createCertificateMemory();
  return [
    challengeRoute({ keys, clock }),
    presentRoute({ db, vault, clock }),
    verifyRoute({ keys, findRoot: createRootFinder(db), memory, decide: createBatcher(decisions), clock }),
  ];
}
