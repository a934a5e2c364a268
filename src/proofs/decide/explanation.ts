import type { Explanation } from "../../db/tables.ts";
import type { ExplanationValues } from "../../input/platform_fields.ts";
import { type ConstraintType, isKnownConstraint } from "../../protocol/constraints/constraints.ts";
import type { ConstraintContext, FailedConstraint } from "../../protocol/constraints/evaluate_constraints.ts";
import { localClock } from "../../protocol/constraints/time_window.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import type { Verification } from "../../protocol/verification/evidence.ts";
import { effectiveScope } from "../../protocol/verification/rule_order.ts";
import { type DenyReason, REASONS } from "./reasons.ts";

/** A proof that the pure rules deny. */
export type Denied = {
  reason: DenyReason;
  chain: readonly DelegationCert[];
  verification: Pick<Verification, "violation" | "failed_constraint">;
  context: ConstraintContext;
  /** Unix seconds. */
  now: number;
};

/** How sent values are kept. `mac` hashes a value, so that nobody can find it by trying candidates. */
export type Keeping = { values: ExplanationValues; mac(fact: string, value: string): string };

/** Values of an explanation are at most this long, because strangers choose many of them. */
const MOST_CHARACTERS = 160;

type Details = Omit<Explanation, "rule">;

const DETAILS: Record<DenyReason, (denied: Denied, keeping: Keeping) => Details> = {
  not_delegated: ({ chain }) => ({ limit: { scope: shortened(effectiveScope(chain).join(" ")) } }),
  delegation_expired: (denied) => ({ limit: { expires_at: isoTime(certificateOf(denied)?.expires_at) } }),
  not_yet_valid: (denied) => ({ limit: { issued_at: isoTime(certificateOf(denied)?.issued_at) } }),
  constraint_denied: ofConstraint,
  constraint_unverifiable: ofConstraint,
  constraint_unknown: ofConstraint,
  delegation_not_authorized: nothing,
  untrusted_root: nothing,
  principal_not_accepted: nothing,
  delegation_revoked: nothing,
  ceiling_exceeded: nothing,
};

/**
 * Returns the rule that a proof violated, the limit that it exceeded and the value that was sent. All members
 * are short texts without control or invisible characters.
 */
export function explain(denied: Denied, keeping: Keeping): Explanation {
  return { rule: REASONS[denied.reason].rule, ...DETAILS[denied.reason](denied, keeping) };
}

function nothing(): Details {
  return {};
}

function certificateOf({ chain, verification }: Denied): DelegationCert | undefined {
  return chain[verification.violation?.certificate ?? 0];
}

/** Certificates may contain any number of seconds, also one that no `Date` can represent. */
function isoTime(seconds = 0): string {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString();
}

type Fact = Exclude<keyof ConstraintContext, "invocations"> | "time" | "used";

/** The facts that each constraint is compared with. */
const COMPARED: Record<ConstraintType, readonly Fact[]> = {
  geo_circle: ["latitude", "longitude"],
  geo_polygon: ["latitude", "longitude"],
  geo_bbox: ["latitude", "longitude", "altitude_m"],
  time_window: ["time"],
  max_speed_mps: ["speed_mps"],
  max_amount: ["amount", "currency"],
  max_rate: ["used"],
  resource_path: ["resource_id", "path"],
};

function ofConstraint(denied: Denied, keeping: Keeping): Details {
  const failed = denied.verification.failed_constraint;
  if (failed === undefined) return {};
  const { constraint } = failed;
  const type = shortened(constraint.type);
  if (!isKnownConstraint(constraint)) return { constraint: type };
  const facts = factsOf(denied, failed);
  const sent = COMPARED[constraint.type].flatMap((fact) => {
    const value = facts[fact];
    return value === undefined ? [] : [[fact, kept(fact, value, keeping)] as const];
  });
  const isPersonal = sent.some(([fact]) => !PUBLIC.includes(fact));
  return {
    constraint: type,
    limit: limitOf(constraint),
    ...(sent.length > 0 && { sent: Object.fromEntries(sent) }),
    ...(isPersonal && { values: keeping.values }),
  };
}

/** Facts that the service itself counts or measures, so they contain nothing that a caller sent. */
const PUBLIC: readonly Fact[] = ["time", "used"];

type Facts = Partial<Record<Fact, string | number | undefined>>;

function factsOf({ context, now }: Denied, { constraint, used }: FailedConstraint): Facts {
  const zone = isKnownConstraint(constraint) && constraint.type === "time_window" ? constraint.tz : "UTC";
  return { ...context, time: localClock(now, zone), used };
}

/** Returns the members of a constraint as texts, and only the number of a polygon's corners. */
function limitOf(constraint: object): Record<string, string> {
  const members = Object.entries(constraint).filter(([name]) => name !== "type");
  return Object.fromEntries(
    members.map(([name, value]) => [name, shortened(String(Array.isArray(value) ? value.length : value))]),
  );
}

/** Currencies as people write them. Any other text in their place may be personal. */
const CURRENCY = /^[A-Za-z]{3,5}$/;

function kept(fact: Fact, value: string | number, { values, mac }: Keeping): string {
  const isPublic = PUBLIC.includes(fact) || (fact === "currency" && CURRENCY.test(String(value)));
  if (isPublic || values === "full") return shortened(String(value));
  if (values === "rounded" && typeof value === "number") return rounded(fact, value);
  return `hmac-sha256:${mac(fact, String(value))}`;
}

/** Rounds a position to about 11 km. Rounds other numbers up to two digits, so they stay beyond a limit. */
function rounded(fact: Fact, value: number): string {
  if (fact === "latitude" || fact === "longitude") return String(Number(value.toFixed(1)));
  const nearest = Number(value.toPrecision(2));
  if (!Number.isFinite(nearest)) return String(value);
  if (nearest >= value) return String(nearest);
  const step = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 1);
  return String(Number((nearest + step).toPrecision(2)));
}

/** Replaces control and invisible characters, and lone surrogates. */
function shortened(text: string): string {
  const start = text.slice(0, MOST_CHARACTERS).toWellFormed();
  const clean = start.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
  return text.length > MOST_CHARACTERS ? `${clean}…` : clean;
}
