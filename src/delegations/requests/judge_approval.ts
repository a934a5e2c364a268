import { isDeepStrictEqual } from "node:util";
import { type Clock, signingSeconds, unixSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { newCertificateId } from "../../ids.ts";
import { checkAccountCeiling, checkCeiling, named } from "../../input/ceiling.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import { findAgent } from "../../platforms/agents/agents.ts";
import { findPrincipalConnection } from "../../platforms/platform_record.ts";
import {
  type Constraint,
  type ConstraintType,
  isKnownConstraint,
  type KnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import { distanceMeters, type GeoBox } from "../../protocol/constraints/geometry.ts";
import { isWithin, normalizePath, type ResourcePath } from "../../protocol/constraints/resource_path.ts";
import { isInsideWindow, type TimeWindow } from "../../protocol/constraints/time_window.ts";
import type { DelegationFields } from "../../protocol/documents/certificate.ts";
import { coversScopes } from "../../protocol/documents/scopes.ts";
import { findRequest, isPending, type RequestRecord } from "../delegation_records.ts";
import { approvedEnd, type RequestedExpiry } from "../requested_end.ts";
import { allowsOnce } from "./agent_requests.ts";
import { certificateFields, type Grant } from "./certificate_fields.ts";

/** The terms that an approver wants to grant. */
export type ApprovalTerms = {
  approvedScope: readonly string[];
  expiry: RequestedExpiry;
  /** Constraints in addition to the requested ones. */
  constraints: readonly unknown[];
  /** Whether the grant is only for the refused action, for one time within ten minutes. */
  once: boolean;
};

/** Seconds in which an approval for one time can be used. */
export const ONCE_SECONDS = 600;
/** Its window is longer than its life, because clocks of processes differ. */
const ONCE = { type: "max_rate", count: 1, window_s: 2 * ONCE_SECONDS };

type JudgedApproval = {
  request: RequestRecord;
  grant: Grant;
  fields: DelegationFields;
  ceiling: string[];
};

/**
 * Checks an approval without storing or signing anything. The approval may grant at most what was requested,
 * within both ceilings, and its constraints must be possible to meet.
 *
 * Throws `not_found`, `request_not_pending`, `scope_not_requested`, `ceiling_exceeded`, `invalid_expiry`,
 * `invalid_constraints`, `constraint_widened`.
 */
export async function judgeApproval(
  { db, clock }: { db: Database; clock: Clock },
  owner: Owner,
  requestId: string,
  terms: ApprovalTerms,
): Promise<JudgedApproval> {
  const now = clock.now();
  const caller = { accountId: owner.accountId, connectionId: null };
  const request = await findRequest(db, caller, requestId, now);
  if (!isPending(request, now)) throw new ApiError("request_not_pending");
  const connection = await findPrincipalConnection(db, owner.accountId, request.connection_id);
  const ceiling = connection.allowed_scopes;
  const agent = await findAgent(db, request.connection_id, request.agent_id);
  const grant = grantOf({ owner, agent, request, terms, now });
  checkCeiling(ceiling, grant.scope);
  checkAccountCeiling(owner.rootCeiling, grant.scope);
  const fields = certificateFields(grant);
  checkTighter(fields.constraints, request.constraints.length);
  return { request, grant, fields, ceiling };
}

type GrantInput = { owner: Owner; agent: AgentRow; request: RequestRecord; terms: ApprovalTerms; now: Date };

function grantOf({ owner, agent, request, terms, now }: GrantInput): Grant {
  const scope = [...new Set(terms.approvedScope)];
  const wider = coversScopes(request.requested_scope, scope);
  if (scope.length === 0) throw new ApiError("scope_not_requested", "approved_scope: must not be empty");
  if (wider.length > 0) throw new ApiError("scope_not_requested", `Not requested: ${named(wider)}`);
  const requested = {
    at: request.requested_expires_at && unixSeconds(request.requested_expires_at),
    inSeconds: request.requested_expires_in,
  };
  const grant = {
    certId: newCertificateId(),
    owner,
    agent,
    scope,
    constraints: mergeConstraints(request.constraints, terms.constraints),
    issuedAt: signingSeconds(now),
    end: approvedEnd(requested, terms.expiry, now),
    onlyAction: null,
  };
  return terms.once ? forOneTime(grant, request, terms, now) : grant;
}

/**
 * Narrows a grant to the refused action. Throws `invalid_request` unless {@link allowsOnce}, and
 * `scope_not_requested` and `invalid_expiry` for terms that the action does not need.
 */
function forOneTime(grant: Grant, request: RequestRecord, terms: ApprovalTerms, now: Date): Grant {
  const { refusal, refused_action: action } = request;
  if (refusal === null || !allowsOnce(request, grant.agent.custody_mode)) {
    throw new ApiError("invalid_request", "body.once: the service does not know the whole refused action");
  }
  const { required_scope: scope } = refusal;
  if (grant.scope.length !== 1 || grant.scope[0] !== scope) {
    throw new ApiError("scope_not_requested", `approved_scope: must be ${scope} only, with once`);
  }
  if (terms.expiry.at !== null || terms.expiry.inSeconds !== null) {
    throw new ApiError("invalid_expiry", "With once, the expiry cannot be chosen");
  }
  const end = unixSeconds(now) + ONCE_SECONDS;
  return {
    ...grant,
    constraints: [...grant.constraints, ONCE],
    end: grant.end === null ? end : Math.min(grant.end, end),
    onlyAction: action,
  };
}

/** Joins the two lists. A constraint that is in both lists appears once in the result. */
function mergeConstraints(requested: readonly unknown[], approver: readonly unknown[]): unknown[] {
  const added = approver.filter((each) => !requested.some((known) => isDeepStrictEqual(known, each)));
  return [...requested, ...added];
}

/**
 * Throws `constraint_widened` for an added constraint that allows more than a requested constraint. The added
 * constraint would have no effect beside the requested one, so the approver must have meant something else.
 * The first `requested` entries in `constraints` were requested, and the others were added.
 */
function checkTighter(constraints: readonly Constraint[], requested: number): void {
  for (const [place, added] of constraints.slice(requested).entries()) {
    if (constraints.slice(0, requested).some((known) => widens(known, added))) {
      throw new ApiError(
        "constraint_widened",
        `constraints.${requested + place}: ${added.type} allows more than the requested constraint`,
      );
    }
  }
}

/** Checks whether `added` allows everything that `known` allows, and more. False if their types differ. */
export function widens(known: Constraint, added: Constraint): boolean {
  if (!isKnownConstraint(known) || !isKnownConstraint(added)) return false;
  return allowsAllOf(added, known) && !allowsAllOf(known, added);
}

type Comparisons = {
  [T in ConstraintType]: (wide: Of<T>, narrow: Of<T>) => boolean;
};
type Of<T extends ConstraintType> = Extract<KnownConstraint, { type: T }>;

/** For each type, a function that checks whether `wide` holds whenever `narrow` holds. */
const COMPARISONS: Comparisons = {
  max_amount: (wide, narrow) => wide.currency === narrow.currency && wide.max_amount >= narrow.max_amount,
  max_speed_mps: (wide, narrow) => wide.max_mps >= narrow.max_mps,
  max_rate: (wide, narrow) => wide.count >= narrow.count && wide.window_s <= narrow.window_s,
  time_window: containsWindow,
  geo_circle: (wide, narrow) =>
    distanceMeters(wide.lat, wide.lon, narrow.lat, narrow.lon) + narrow.radius_m <= wide.radius_m,
  geo_bbox: containsBox,
  // Polygons are not compared.
  geo_polygon: () => false,
  resource_path: (wide, narrow) => wide.resource_id === narrow.resource_id && containsPath(wide, narrow),
};

function allowsAllOf(wide: KnownConstraint, narrow: KnownConstraint): boolean {
  const compare = COMPARISONS[wide.type] as (wide: KnownConstraint, narrow: KnownConstraint) => boolean;
  return wide.type === narrow.type && compare(wide, narrow);
}

function containsPath(wide: ResourcePath, narrow: ResourcePath): boolean {
  const [above = "", below = ""] = [wide, narrow].map(({ path_prefix = "/" }) => normalizePath(path_prefix));
  return isWithin(above, below);
}

/** Compares minute by minute, because both windows may wrap around midnight. */
function containsWindow(wide: TimeWindow, narrow: TimeWindow): boolean {
  return wide.tz === narrow.tz && minutesOf(narrow).every((minute) => isInsideWindow(wide, minute));
}

function minutesOf(window: TimeWindow): string[] {
  return DAY.filter((minute) => isInsideWindow(window, minute));
}

const DAY = Array.from({ length: 24 * 60 }, (_, minute) =>
  [Math.floor(minute / 60), minute % 60].map((part) => String(part).padStart(2, "0")).join(":"),
);

function containsBox(wide: GeoBox, narrow: GeoBox): boolean {
  return (
    wide.min_lat <= narrow.min_lat &&
    narrow.max_lat <= wide.max_lat &&
    containsLongitudes(wide, narrow) &&
    containsAltitudes(wide, narrow)
  );
}

/** Compares longitudes as distances east of `min_lon`, because a box may cross the antimeridian. */
function containsLongitudes(wide: GeoBox, narrow: GeoBox): boolean {
  const eastward = (from: number, to: number) => (from <= to ? to - from : to - from + 360);
  const width = (box: GeoBox) => eastward(box.min_lon, box.max_lon);
  return eastward(wide.min_lon, narrow.min_lon) + width(narrow) <= width(wide);
}

function containsAltitudes(wide: GeoBox, narrow: GeoBox): boolean {
  if (wide.min_alt_m === undefined || wide.max_alt_m === undefined) return true;
  return (
    narrow.min_alt_m !== undefined &&
    narrow.max_alt_m !== undefined &&
    wide.min_alt_m <= narrow.min_alt_m &&
    narrow.max_alt_m <= wide.max_alt_m
  );
}
