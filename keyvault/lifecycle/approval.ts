import type { Caller } from "../audit/record.ts";
import type { Pending } from "../db/rows.ts";
import { type Refusal, refuse } from "../errors.ts";

/** How long what one admin asked for waits for a second one. */
export const APPROVAL_HOURS = 24;

/** What an admin asks for, or grants to another who asked for exactly this. */
export type Wish = Pick<Pending, "action" | "days">;

/**
 * The rule of two: an admin's wish waits, and comes true when a different admin has the same wish within 24 hours. Admins differ when the
 * names of their certificates do. Gives what waits from now on, `granted`, or a refusal for the one who asked.
 */
export function decideByTwo(
  pending: Pending | null,
  wish: Wish,
  admin: Caller,
  now: Date,
): Pending | "granted" | Refusal {
  const waits = pending !== null && isFresh(pending, now) && isSame(pending, wish);
  if (!waits) return { ...wish, admin: admin.name, asked_at: now.toISOString() };
  if (pending.admin !== admin.name) return "granted";
  return refuse("policy_violation", "Another admin must ask for the same; you have");
}

/** A clock that was set back makes no wish last longer: one from too far ahead is as stale as an old one. */
function isFresh({ asked_at }: Pending, now: Date): boolean {
  return Math.abs(now.getTime() - Date.parse(asked_at)) <= APPROVAL_HOURS * 3_600_000;
}

function isSame({ action, days }: Pending, wish: Wish): boolean {
  return action === wish.action && days === wish.days;
}
