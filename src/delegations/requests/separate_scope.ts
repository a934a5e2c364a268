import type { Transaction } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { named } from "../../input/ceiling.ts";
import { pickDescriptions } from "../../platforms/scope_descriptions.ts";
import { intersectScopes } from "../../protocol/documents/scopes.ts";
import type { RequestRecord } from "../delegation_records.ts";
import type { ApprovalTerms } from "./judge_approval.ts";

/**
 * Returns the terms of the linked delegation that lends `scope` without the amount limits that the approver
 * added. Requested limits stay, because an approval never grants more than was requested.
 *
 * Throws `scope_not_requested` if `scope` is empty or both delegations would grant the same scope. Throws
 * `invalid_constraints` if the two delegations would allow more than the request, or if the second one would
 * not differ. Throws `invalid_request` for a request that an object declares: it has only one certificate.
 */
export function separateTerms(
  request: RequestRecord,
  terms: ApprovalTerms,
  scope: readonly string[],
): ApprovalTerms {
  if (request.external_id !== null) {
    throw new ApiError(
      "invalid_request",
      "body.separate_scope: a request that a Delegation object declares leads to only one delegation",
    );
  }
  if (terms.once) throw new ApiError("invalid_request", "body.separate_scope: cannot be combined with once");
  if (scope.length === 0) throw new ApiError("scope_not_requested", "separate_scope: must not be empty");
  const both = intersectScopes([...terms.approvedScope], [...scope]);
  if (both.length > 0) {
    throw new ApiError("scope_not_requested", `Both approved_scope and separate_scope grant ${named(both)}`);
  }
  const all = [...request.constraints, ...terms.constraints].map(typeOf);
  // Each delegation would count its own uses.
  if (all.includes("max_rate")) {
    throw new ApiError(
      "invalid_constraints",
      "separate_scope: cannot be combined with max_rate, because each delegation would count its own uses",
    );
  }
  if (request.constraints.map(typeOf).includes("max_amount") || !all.includes("max_amount")) {
    throw new ApiError(
      "invalid_constraints",
      "separate_scope: constraints must contain a max_amount, and the request must contain none",
    );
  }
  return {
    ...terms,
    approvedScope: scope,
    constraints: terms.constraints.filter((constraint) => typeOf(constraint) !== "max_amount"),
  };
}

function typeOf(constraint: unknown): unknown {
  return (constraint as { type?: unknown }).type;
}

/** Stores the approved request of a linked delegation, and links it with the request that was approved. */
export async function storeSeparateRequest(
  tx: Transaction,
  { request_id, ...approved }: DelegationRequestRow,
  { requestId, scope }: { requestId: string; scope: readonly string[] },
): Promise<void> {
  await tx("delegation_requests").insert({
    ...approved,
    request_id: requestId,
    requested_scope: [...scope],
    scope_descriptions: pickDescriptions(approved.scope_descriptions, scope),
    constraints: JSON.stringify(approved.constraints) as unknown as unknown[],
    linked_request_id: request_id,
    refusal: null,
    refused_action: null,
  });
  await tx("delegation_requests").where({ request_id }).update({ linked_request_id: requestId });
}
