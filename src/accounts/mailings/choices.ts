import type { Database, Transaction } from "../../db/database.ts";
import type { MailChoice, MailKind } from "./kinds.ts";
import { pacedAfter } from "./queue.ts";

/** Returns how often a person gets each kind of mail. A kind without an entry is mailed every time. */
export async function readChoices(
  db: Database,
  accountId: string,
): Promise<Partial<Record<MailKind, MailChoice>>> {
  const rows = await db("mail_choices").where({ account_id: accountId }).select("kind", "choice");
  return Object.fromEntries(rows.map(({ kind, choice }) => [kind, choice]));
}

/**
 * Changes how often a person gets a kind of mail. With `off`, drops all requests that wait for such a mail.
 */
export async function changeChoice(
  tx: Transaction,
  { accountId, kind, choice, now }: { accountId: string; kind: MailKind; choice: MailChoice; now: Date },
): Promise<void> {
  const key = { account_id: accountId, kind };
  await tx("mail_choices")
    .insert({ ...key, choice })
    .onConflict(["account_id", "kind"])
    .merge();
  const dropped = { request_ids: [], due_at: null, next_attempt_at: null, attempts: 0 };
  const queues = await tx("mailing_queues")
    .where({ person_id: accountId, kind })
    .orderBy("account_id")
    .forUpdate();
  for (const { account_id, mailed_at: mailedAt, streak, due_at, attempts } of queues) {
    const paced = mailedAt === null ? null : pacedAfter({ kind, choice }, { mailedAt, streak });
    const due = due_at === null ? null : new Date(Math.max(now.getTime(), paced?.getTime() ?? 0));
    // A mail that was attempted keeps the time of its next attempt, so that no two processes send it.
    const moved = attempts > 0 ? {} : { due_at: due, next_attempt_at: due };
    await tx("mailing_queues")
      .where({ person_id: accountId, account_id, kind })
      .update({
        paced_until: paced,
        ...(choice === "off" ? { ...dropped, omitted: 0, omitted_since: null } : moved),
      });
  }
}
