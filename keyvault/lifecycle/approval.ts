import type { Caller } from "../audit/record.ts";
import type { ComparedClock } from "../clock.ts";
import type { Pending } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Changed } from "../keys/change.ts";
import type { AcceptsCertificate } from "../tls/trust.ts";

/** How long one admin's request waits for a second admin. */
const APPROVAL_HOURS = 24;

type Asked = Pick<Pending, "action" | "days" | "rows">;

/** Inputs of the two-admin rule. `accepts` checks the certificate, base64 of its DER, at `now`. */
export type Judging = { now: Date; accepts: AcceptsCertificate };

/** Dependencies of {@link judging}. */
export type JudgingParts = { clock: ComparedClock; accepts: AcceptsCertificate };

/** Returns the inputs of the two-admin rule at the current time. */
export function judging({ clock, accepts }: JudgingParts): Judging {
  return { now: clock.now(), accepts };
}

/**
 * Applies the two-admin rule. An admin's wish waits and is granted when a different admin requests the same
 * within 24 hours. Two admins are different if their certificates have different names. A wish becomes
 * invalid if its admin's certificate is revoked or expires, or if the certificate's authority is removed.
 * Returns the wish that waits from now on, `granted`, or a refusal if the same admin asks again.
 */
export function decideByTwo(
  pending: Pending | null,
  wish: Asked,
  admin: Caller,
  { now, accepts }: Judging,
): Pending | "granted" | Refusal {
  const waits =
    pending !== null &&
    isFresh(pending, now) &&
    isSame(pending, wish) &&
    isCertificateAccepted(pending, now, accepts);
  if (!waits) {
    const { certificate } = admin;
    const asked = { ...wish, admin: admin.name, asked_at: now.toISOString() };
    return { ...asked, ...(certificate !== undefined && { certificate }) };
  }
  if (pending.admin !== admin.name) return "granted";
  return refuse("policy_violation", "You already requested this; another admin must request the same");
}

/**
 * Returns whether a wish is at most 24 hours old, and at most 24 hours in the future. Without the second
 * condition, a clock that was set back would extend the wish.
 */
function isFresh({ asked_at }: Pending, now: Date): boolean {
  return Math.abs(now.getTime() - Date.parse(asked_at)) <= APPROVAL_HOURS * 3_600_000;
}

function isCertificateAccepted({ certificate }: Pending, now: Date, accepts: AcceptsCertificate): boolean {
  return certificate !== undefined && accepts(certificate, now);
}

function isSame({ action, days, rows }: Pending, wish: Asked): boolean {
  return action === wish.action && days === wish.days && rows === wish.rows;
}

/**
 * Applies the two-admin rule to a row. Stores the wish in the row. If the second admin has approved the wish,
 * changes the row by `granted` instead, and the record names both admins.
 */
export function changeByTwo<Row extends { pending: Pending | null }>(
  row: Row,
  wish: Asked,
  admin: Caller,
  parts: JudgingParts,
  granted: (now: Date) => Partial<Row>,
): Changed<Row> | Refusal {
  const by = judging(parts);
  const decision = decideByTwo(row.pending, wish, admin, by);
  if (decision === "granted") {
    const detail = { step: "done", asked_by: row.pending?.admin ?? "" };
    return { row: { ...row, ...granted(by.now), pending: null }, detail };
  }
  return isRefusal(decision) ? decision : { row: { ...row, pending: decision }, detail: { step: "asked" } };
}
