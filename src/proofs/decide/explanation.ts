import type { Explanation } from "../../db/tables.ts";
import type { ExplanationValues } from "../../input/platform_fields.ts";
import {
  type ConstraintType,
  isKnownConstraint,
  type KnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import {
  type ConstraintContext,
  type FailedConstraint,
  refusalOf,
} from "../../protocol/constraints/evaluate_constraints.ts";
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

/** Returns a time in ISO 8601, or the number of seconds if no `Date` can represent the time. */
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
  const limit = limitOf(constraint);
  const facts = factsOf(denied, failed);
  const numbers = keeping.values === "rounded" ? rounded(constraint, denied) : {};
  const sent = COMPARED[constraint.type].flatMap((fact) => {
    const value = facts[fact];
    return value === undefined ? [] : [[fact, numbers[fact] ?? kept(fact, value, keeping, limit)] as const];
  });
  const isPersonal = sent.some(([fact]) => !PUBLIC.includes(fact));
  return {
    constraint: type,
    limit,
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

/** Returns the members of a constraint as texts. A polygon has only the number of its points. */
function limitOf(constraint: object): Record<string, string> {
  const members = Object.entries(constraint).filter(([name]) => name !== "type");
  return Object.fromEntries(
    members.map(([name, value]) => [name, shortened(String(Array.isArray(value) ? value.length : value))]),
  );
}

function kept(
  fact: Fact,
  value: string | number,
  { values, mac }: Keeping,
  limit: Record<string, string>,
): string {
  const text = shortened(String(value));
  // Any other text in place of a currency may be personal.
  const isPublic =
    PUBLIC.includes(fact) || (fact === "currency" && (text === limit.currency || isCurrency(text)));
  return isPublic || values === "full" ? text : `hmac-sha256:${mac(fact, String(value))}`;
}

const CURRENCIES = new Set(Intl.supportedValuesOf("currency"));

function isCurrency(text: string): boolean {
  return CURRENCIES.has(text.toUpperCase());
}

const NUMERIC = ["latitude", "longitude", "altitude_m", "speed_mps", "amount"] as const;
type Numeric = (typeof NUMERIC)[number];

function isNumeric(fact: Fact): fact is Numeric {
  return NUMERIC.some((each) => each === fact);
}

/**
 * Rounds the numbers that a constraint compares: positions to 0.1 degrees (about 11 km), others to two
 * digits. Takes the nearest rounded numbers that the constraint refuses in the same way, so that an
 * explanation never contradicts its denial. Returns nothing if there are none. Then the numbers are hashed.
 */
function rounded(
  constraint: KnownConstraint,
  { context, now, reason }: Denied,
): Partial<Record<Fact, string>> {
  if (constraint.type === "max_rate") return {};
  const sent = COMPARED[constraint.type].flatMap((fact) => {
    const value = isNumeric(fact) ? context[fact] : undefined;
    return isNumeric(fact) && value !== undefined ? [{ fact, candidates: candidates(fact, value) }] : [];
  });
  for (const numbers of combinations(sent)) {
    if (refusalOf(constraint, { certId: "", now, context: { ...context, ...numbers } }) === reason) {
      return Object.fromEntries(Object.entries(numbers).map(([fact, value]) => [fact, String(value)]));
    }
  }
  return {};
}

type Candidates = { fact: Numeric; candidates: number[] };

/** Yields every choice of one candidate for each fact, nearest candidates first. */
function* combinations([first, ...others]: readonly Candidates[]): Generator<
  Partial<Record<Numeric, number>>
> {
  if (first === undefined) return yield {};
  for (const candidate of first.candidates) {
    for (const rest of combinations(others)) yield { [first.fact]: candidate, ...rest };
  }
}

/** Returns the rounded forms of a number: to the nearest, down and up. */
function candidates(fact: Numeric, value: number): number[] {
  const isPosition = fact === "latitude" || fact === "longitude";
  const step = isPosition || value === 0 ? 0.1 : 10 ** (Math.floor(Math.log10(Math.abs(value))) - 1);
  const steps = value / step;
  return [Math.round(steps), Math.floor(steps), Math.ceil(steps)]
    .map((count) => Number((count * step).toPrecision(isPosition ? 4 : 2)))
    .filter(Number.isFinite);
}

/** Shortens a text and replaces control characters, invisible characters and lone surrogates. */
function shortened(text: string): string {
  const start = text.slice(0, MOST_CHARACTERS).toWellFormed();
  const clean = start.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
  return text.length > MOST_CHARACTERS ? `${clean}…` : clean;
}
