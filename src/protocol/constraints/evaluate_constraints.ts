import type { PERMISSION_CODES } from "../violations.ts";
import {
  type Constraint,
  type ConstraintType,
  constraintViolation,
  contradiction,
  isKnownConstraint,
  type KnownConstraint,
} from "./constraints.ts";
import {
  altitudeBounds,
  distanceMeters,
  isInsideLongitudes,
  isInsidePolygon,
  isPosition,
} from "./geometry.ts";
import { isWithin, normalizePath } from "./resource_path.ts";
import { isInsideWindow, localClock } from "./time_window.ts";

/** Facts about a request, for evaluating constraints. An absent fact is unknown (wire format §7). */
export type ConstraintContext = {
  /** Degrees. */
  latitude?: number | undefined;
  /** Degrees. */
  longitude?: number | undefined;
  altitude_m?: number | undefined;
  speed_mps?: number | undefined;
  amount?: number | undefined;
  currency?: string | undefined;
  resource_id?: string | undefined;
  path?: string | undefined;
  /** Returns the number of uses of a certificate in the last `windowSeconds`, or `undefined` if unknown. */
  invocations?:
    | ((certId: string, windowSeconds: number) => InvocationCount | Promise<InvocationCount>)
    | undefined;
};

type InvocationCount = number | undefined;

/** Why a constraint does not hold. */
export type Refusal = {
  code: Extract<(typeof PERMISSION_CODES)[number], `constraint_${string}`>;
  detail: string;
  /** Absent if each constraint can hold, but not all of them together. */
  failed?: FailedConstraint;
};

/** The constraint that does not hold. `used` is the number of uses that was compared with a `max_rate`. */
export type FailedConstraint = { constraint: Constraint; used?: number };

/** The input for evaluating one certificate's constraints. `now` is in Unix seconds. */
export type ConstraintInput = {
  certId: string;
  now: number;
  context: ConstraintContext;
};

type Evaluation = (Omit<Refusal, "failed"> & { used?: number }) | undefined;
type Evaluators = {
  [T in ConstraintType]: (
    constraint: Extract<KnownConstraint, { type: T }>,
    input: ConstraintInput,
  ) => Evaluation | Promise<Evaluation>;
};

const EVALUATORS: Evaluators = {
  geo_circle: ({ lat, lon, radius_m }, { context }) => {
    const position = positionOf(context);
    if (position === undefined) return unverifiable("no position was supplied");
    const distance = distanceMeters(lat, lon, position.lat, position.lon);
    return distance <= radius_m
      ? undefined
      : denied(`outside allowed radius: ${distance.toFixed(1)}m > ${radius_m.toFixed(1)}m`);
  },
  geo_polygon: ({ points }, { context }) => {
    const position = positionOf(context);
    if (position === undefined) return unverifiable("no position was supplied");
    return isInsidePolygon(points, position.lat, position.lon)
      ? undefined
      : denied("outside allowed polygon");
  },
  geo_bbox: (box, { context }) => {
    const position = positionOf(context);
    if (position === undefined) return unverifiable("no position was supplied");
    if (!(box.min_lat <= position.lat && position.lat <= box.max_lat)) {
      return denied(outside("latitude", position.lat, box.min_lat, box.max_lat));
    }
    if (!isInsideLongitudes(box.min_lon, box.max_lon, position.lon)) {
      return denied(outside("longitude", position.lon, box.min_lon, box.max_lon));
    }
    const { min, max } = altitudeBounds(box);
    if (min === 0 && max === 0) return undefined;
    const altitude = finite(context.altitude_m);
    if (altitude === undefined) return unverifiable("no altitude was supplied");
    return min <= altitude && altitude <= max ? undefined : denied(outside("altitude", altitude, min, max));
  },
  time_window: (window, { now }) => {
    const clock = localClock(now, window.tz);
    return clock !== undefined && isInsideWindow(window, clock)
      ? undefined
      : denied(`current ${clock} outside [${window.start}, ${window.end}] ${window.tz}`);
  },
  max_speed_mps: ({ max_mps }, { context }) => {
    const speed = finite(context.speed_mps);
    if (speed === undefined) return unverifiable("no speed was supplied");
    return speed <= max_mps
      ? undefined
      : denied(`speed ${speed.toFixed(2)}mps exceeds max ${max_mps.toFixed(2)}mps`);
  },
  max_amount: ({ max_amount, currency }, { context }) => {
    const amount = finite(context.amount);
    if (amount === undefined || context.currency === undefined) {
      return unverifiable("no amount and currency were supplied");
    }
    if (context.currency !== currency) {
      return denied(`currency ${JSON.stringify(context.currency)} is not ${JSON.stringify(currency)}`);
    }
    return amount <= max_amount
      ? undefined
      : denied(`amount ${amount.toFixed(2)} ${currency} exceeds max ${max_amount.toFixed(2)} ${currency}`);
  },
  max_rate: async ({ count, window_s }, { context, certId }) => {
    const used = finite(await context.invocations?.(certId, window_s));
    if (used === undefined) return unverifiable("no count of invocations was supplied");
    return used < count
      ? undefined
      : { ...denied(`${used} invocations in ${window_s}s reach the limit of ${count}`), used };
  },
  resource_path: ({ resource_id, path_prefix }, { context }) => {
    if (context.resource_id === undefined) return unverifiable("no resource was supplied");
    if (context.resource_id !== resource_id) {
      return denied("requested resource does not match the authorized resource");
    }
    if (path_prefix === undefined) return undefined;
    if (context.path === undefined) return unverifiable("no path was supplied");
    const path = normalizePath(context.path);
    if (path === undefined) {
      return denied(`requested path ${JSON.stringify(context.path)} is not a valid path`);
    }
    const prefix = normalizePath(path_prefix);
    return prefix !== undefined && isWithin(prefix, path)
      ? undefined
      : denied(
          `requested path ${JSON.stringify(path)} is outside the authorized prefix ${JSON.stringify(prefix)}`,
        );
  },
};

/**
 * Returns a refusal that names the first constraint that does not hold, or `undefined` if all hold. Denies
 * every request if constraints can never hold, alone or together (wire format §7).
 */
export async function evaluateConstraints(
  constraints: readonly Constraint[],
  input: ConstraintInput,
): Promise<Refusal | undefined> {
  const conflict = contradiction(constraints);
  if (conflict !== undefined) return denied(conflict);
  for (const [index, constraint] of constraints.entries()) {
    const refusal = await evaluate(constraint, input);
    if (refusal !== undefined) {
      const { code, detail, ...used } = refusal;
      return {
        code,
        detail: `constraint[${index}] (${constraint.type}): ${detail}`,
        failed: { constraint, ...used },
      };
    }
  }
  return undefined;
}

/** Returns how a constraint would refuse these facts, or `undefined` if it holds. */
export function refusalOf(
  constraint: Exclude<KnownConstraint, { type: "max_rate" }>,
  input: ConstraintInput,
): Refusal["code"] | undefined {
  const evaluator = EVALUATORS[constraint.type] as (
    constraint: KnownConstraint,
    input: ConstraintInput,
  ) => Evaluation;
  return evaluator(constraint, input)?.code;
}

async function evaluate(constraint: Constraint, input: ConstraintInput): Promise<Evaluation> {
  if (!isKnownConstraint(constraint)) {
    const detail = `constraint_unknown: unknown constraint type ${JSON.stringify(constraint.type)}`;
    return { code: "constraint_unknown", detail };
  }
  const violation = constraintViolation(constraint);
  if (violation !== undefined) return denied(violation);
  const evaluator = EVALUATORS[constraint.type] as (
    constraint: KnownConstraint,
    input: ConstraintInput,
  ) => Evaluation | Promise<Evaluation>;
  return evaluator(constraint, input);
}

function denied(detail: string): Refusal {
  return { code: "constraint_denied", detail };
}

function unverifiable(detail: string): Refusal {
  return { code: "constraint_unverifiable", detail: `constraint_unverifiable: ${detail}` };
}

function finite(value: number | undefined): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function positionOf({ latitude, longitude }: ConstraintContext): { lat: number; lon: number } | undefined {
  const [lat, lon] = [finite(latitude), finite(longitude)];
  return lat !== undefined && lon !== undefined && isPosition(lat, lon) ? { lat, lon } : undefined;
}

function outside(quantity: string, value: number, min: number, max: number): string {
  return `${quantity} ${value.toFixed(6)} outside [${min.toFixed(6)}, ${max.toFixed(6)}]`;
}
