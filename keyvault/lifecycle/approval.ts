import type { Caller } from "../audit/record.ts";
import type { Clock } from "../clock.ts";
import type { Pending } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Changed } from "../keys/change.ts";
import type { AcceptsCertificate } from "../tls/trust.ts";

/** How long what one admin asked for waits for a second one. */
const APPROVAL_HOURS = 24;

/** What an admin asks for, or grants to another who asked for exactly this. */
type Asked = Pick<Pending, "action" | "days" | "rows">;

/**
 * What the rule of two is judged by: `accepts` says whether a certificate, base64 of its DER, would be let in
 * at `now`.
 */
export type Judging = { now: Date; accepts: AcceptsCertificate };

/** What {@link judging} takes. */
export type JudgingParts = { clock: Clock; accepts: AcceptsCertificate };

/** Judging at this moment. */
export function judging({ clock, accepts }: JudgingParts): Judging {
  return { now: clock.now(), accepts };
}

/**
 * The rule of two: an admin's wish waits, and is granted when a different admin has the same wish within 24
 * hours. Admins differ when the names of their certificates do. A wish ends with the certificate it was asked
 * for by: revoked, expired, or of an authority that was taken out. Gives what waits from now on, `granted`,
 * or a refusal for the one who asked.
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
  return refuse("policy_violation", "You have asked for it; another admin must ask for the same");
}

/** A clock that was set back makes no wish last longer: one from too far ahead is as stale as an old one. */
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
 * What becomes of a row when an admin asks for something that takes two: the wish waits on it, or it is
 * changed to what `granted` says of this moment, and its record names both.
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
