import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { describeFault } from "../describe_fault.ts";
import { ApiError } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import type { ActingPerson } from "../route.ts";
import { VaultRefused, VaultUnavailable } from "../vault/errors.ts";

/** A changing call for an organization: who makes it, and of what. */
export type Act = {
  organizationId: string;
  person: ActingPerson;
  operation: string;
  /** Whom or what it is about; never a secret. */
  target: Record<string, string | boolean>;
};

type Target = Act["target"];
type Told = { told?: Target };
type End = { status: "done" | "refused"; error_code: string | null; target: Target };

/** Runs calls for organizations so that it can be seen who made them. */
export type Activity = {
  /**
   * Runs an act. It is written down before it runs, so no change is without its row; what came of it is
   * written after, with what its answer has told. An act whose end is not known, because the process died or
   * something broke, stays `begun`.
   */
  run<T extends Told>(act: Act, work: () => Promise<T>): Promise<T>;
};

/** Activity that is kept in the database. */
export function createActivity({ db, clock, log }: { db: Database; clock: Clock; log: Logger }): Activity {
  return {
    async run(act, work) {
      const activityId = await writeAct(db, act, { status: "begun", now: clock.now() });
      const end = async ({ target, ...end }: End) => {
        try {
          await db("organization_activity")
            .where({ organization_id: act.organizationId, activity_id: activityId })
            .update({ ...end, target: stored(target) });
        } catch (error) {
          log.warn({ fault: describeFault(error) }, "what came of an organization's act was not written");
        }
      };
      try {
        const result = await work();
        await end({ status: "done", error_code: null, target: { ...act.target, ...result.told } });
        return result;
      } catch (error) {
        const code = refusalOf(error);
        if (code !== undefined) await end({ status: "refused", error_code: code, target: act.target });
        throw error;
      }
    },
  };
}

/** Writes an act down, alone or with the change that it is. Gives its id. */
export async function writeAct(
  db: Database | Transaction,
  { organizationId, person, operation, target }: Act,
  { status, now }: { status: "begun" | "done"; now: Date },
): Promise<string> {
  const { accountId, email, role } = person;
  if (role === null) throw new Error("Nobody acts for an organization without a role");
  const activityId = newId();
  await db("organization_activity").insert({
    organization_id: organizationId,
    activity_id: activityId,
    occurred_at: now,
    actor_account_id: accountId,
    actor_email: email,
    actor_role: role,
    operation,
    target: stored(target),
    status,
    error_code: null,
  });
  return activityId;
}

function stored(target: Target): Record<string, string> {
  return JSON.stringify(target) as unknown as Record<string, string>;
}

/** The code of what changed nothing; none of a fault. */
function refusalOf(error: unknown): string | undefined {
  if (error instanceof ApiError) return error.code;
  return error instanceof VaultRefused || error instanceof VaultUnavailable ? "vault_unavailable" : undefined;
}
