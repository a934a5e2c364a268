import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isPlainLine } from "../../input/plain_text.ts";
import type { Owner } from "../../platforms/account_owner.ts";
import {
  type Constraint,
  canonicalConstraint,
  isKnownConstraint,
  type KnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import { decodeConstraint } from "../../protocol/constraints/decoding.ts";
import { normalizePath } from "../../protocol/constraints/resource_path.ts";
import {
  checkIssuable,
  constraintsError,
  type DelegationFields,
} from "../../protocol/documents/certificate.ts";
import { canonicalBytes } from "../../protocol/encoding/canonical.ts";
import { NO_EXPIRY_SENTINEL, PROTOCOL_VERSION } from "../../protocol/encoding/constants.ts";
import { fitsBytes } from "../../protocol/encoding/fields.ts";
import { parseJson } from "../../protocol/encoding/json.ts";

/** The content of a certificate. Times are in Unix seconds. */
export type Grant = {
  certId: string;
  owner: Owner;
  agent: AgentRow;
  scope: readonly string[];
  constraints: readonly unknown[];
  issuedAt: number;
  /** `null`: valid until revoked. */
  end: number | null;
  /** The only action that it allows, which the certificate itself does not name. `null`: any. */
  onlyAction: Buffer | null;
};

/**
 * Returns the unsigned certificate for a grant. Throws `invalid_constraints` for malformed constraints, for
 * constraints that no request could ever meet, and for a string that could hide content from the approver.
 */
export function certificateFields(grant: Grant): DelegationFields {
  const fields: DelegationFields = {
    cert_id: grant.certId,
    version: PROTOCOL_VERSION,
    issuer_id: grant.owner.humanId,
    issuer_pub_key: grant.owner.rootPublicKey,
    subject_id: grant.agent.agent_id,
    subject_pub_key: grant.agent.public_key,
    scope: [...grant.scope],
    constraints: (grant.constraints as Constraint[]).map(canonicalConstraint),
    issued_at: grant.issuedAt,
    expires_at: grant.end ?? NO_EXPIRY_SENTINEL,
  };
  const fault = checkIssuable(fields);
  if (fault === undefined) {
    fields.constraints.forEach(checkConstraint);
    return fields;
  }
  if (fault.code === "identifier_mismatch" || fault.code === "invalid_key") throw fault;
  throw new ApiError("invalid_constraints", fault.message);
}

/**
 * Throws `ProtocolError`, or `ApiError` `invalid_constraints`, if a certificate could not have these
 * constraints. {@link certificateFields} refuses the same constraints, together with the rest of a grant.
 */
export function checkConstraints(constraints: readonly unknown[]): void {
  const decoded = constraints.map((constraint) => decodeConstraint(parseJson(canonicalBytes(constraint))));
  const fault = constraintsError(decoded);
  if (fault !== undefined) throw fault;
  decoded.forEach(checkConstraint);
}

function checkConstraint(constraint: Constraint, index: number): void {
  const fault = textViolation(constraint) ?? limitViolation(constraint);
  if (fault !== undefined) throw new ApiError("invalid_constraints", `constraints.${index}: ${fault}`);
}

/**
 * Returns why a constraint could hide content from the approver, or `undefined`. Every string at any depth,
 * and every member name in `params`, must be one plain line. The result never contains the string itself.
 */
function textViolation(constraint: Constraint): string | undefined {
  for (const [name, value] of Object.entries(constraint)) {
    if (!texts(value).every(isPlainLine)) {
      return `${name}: must be one line that shows all of itself: nothing invisible, no unusual spaces or stray marks, no space at an end`;
    }
  }
  return undefined;
}

function texts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return [...names, ...Object.values(value).flatMap(texts)];
}

/** Maximum length in characters of the currency in a verify call. */
const MAX_CURRENCY_CHARACTERS = 16;
/** Maximum length in bytes of the resource id in a verify call. */
const MAX_RESOURCE_ID_BYTES = 512;
/** Maximum length in characters of the path in a verify call. */
const MAX_PATH_CHARACTERS = 4096;
/** Longest window in seconds for which this service counts uses: one year. */
const MAX_RATE_WINDOW_SECONDS = 31_536_000;

/** Returns why no verify call could ever meet a constraint, or `undefined`. Ignores extension constraints. */
function limitViolation(constraint: Constraint): string | undefined {
  return isKnownConstraint(constraint) ? knownViolation(constraint) : undefined;
}

function knownViolation(constraint: KnownConstraint): string | undefined {
  switch (constraint.type) {
    case "max_amount":
      return constraint.currency.length > MAX_CURRENCY_CHARACTERS
        ? `max_amount: currency has more than ${MAX_CURRENCY_CHARACTERS} characters`
        : undefined;
    case "resource_path":
      if (!fitsBytes(constraint.resource_id, MAX_RESOURCE_ID_BYTES)) {
        return `resource_path: resource_id has more than ${MAX_RESOURCE_ID_BYTES} bytes`;
      }
      return (normalizePath(constraint.path_prefix ?? "/") ?? "").length > MAX_PATH_CHARACTERS
        ? `resource_path: path_prefix has more than ${MAX_PATH_CHARACTERS} characters`
        : undefined;
    case "max_rate":
      return constraint.window_s > MAX_RATE_WINDOW_SECONDS
        ? `max_rate: window_s is more than ${MAX_RATE_WINDOW_SECONDS}`
        : undefined;
    default:
      return undefined;
  }
}
