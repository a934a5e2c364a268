import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";

/** Deletes invitations that nobody can accept any more. */
export async function sweepInvitations({ db, clock }: { db: Database; clock: Clock }): Promise<void> {
  await db("organization_invitations").where("expires_at", "<=", clock.now()).delete();
}
