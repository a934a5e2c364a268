import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { boundedConstraints, expiryFields, reasonBody } from "../../input/delegation_fields.ts";
import { MAX_SCOPES } from "../../input/platform_fields.ts";
import { idText } from "../../input/schemas.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { certificateAnswer, requestAnswer, showTime } from "../delegation_answers.ts";
import { readExpiry } from "../requested_end.ts";
import { approveRequest, type SignDeps } from "./approve_request.ts";
import { denyRequest, memberDecider } from "./decide_request.ts";
import { sdkWarnings } from "./sdk_warnings.ts";

type Deps = SignDeps & { db: Database; secretBox: SecretBox; clock: Clock };

const params = z.object({ request_id: idText });

const approveBody = z.object({
  approved_scope: z.array(z.string()).max(MAX_SCOPES).describe("All or part of what was requested"),
  constraints: boundedConstraints.optional().describe("Apply in addition to the requested ones"),
  separate_scope: z
    .array(z.string())
    .max(MAX_SCOPES)
    .optional()
    .describe("Scopes of a second, linked delegation, without the max_amount of `constraints`"),
  once: z.boolean().optional().describe("Only the refused action, once within 10 minutes"),
  ...expiryFields,
});

const approveAnswer = certificateAnswer
  .pick({ approved_scope: true, cert_id: true, expires_at: true, issued_at: true, status: true })
  .extend({
    warnings: sdkWarnings.optional(),
    linked_cert_id: z.string().optional().describe("With separate_scope: the second delegation"),
  });

/** `POST …/requests/{request_id}/approve`: the signed-in person delegates exactly the approved scope. */
export function approveRoute(deps: Deps): Route {
  return route({
    id: "approve_delegation_request",
    method: "POST",
    path: "/v1/service/delegations/requests/{request_id}/approve",
    summary: "Approve a delegation request, in full or in part",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params,
    body: approveBody,
    answer: { status: 200, schema: approveAnswer, description: "The certificate" },
    errors: [
      "not_found",
      "request_not_pending",
      "scope_not_requested",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
      "constraint_widened",
      "vault_unavailable",
      "four_eyes_required",
    ],
    async handle({ caller, params, body }) {
      const owner = await findOwner(deps.db, caller.accountId);
      const approved = await approveRequest(deps, owner, params.request_id, {
        approvedScope: body.approved_scope,
        expiry: readExpiry(body),
        constraints: body.constraints ?? [],
        separateScope: body.separate_scope,
        once: body.once ?? false,
        channel: "session",
        decider: memberDecider(caller),
      });
      const linked = approved.linkedCertId !== undefined && { linked_cert_id: approved.linkedCertId };
      return {
        body: {
          approved_scope: approved.approvedScope,
          cert_id: approved.certId,
          expires_at: showTime(approved.expiresAt),
          issued_at: approved.issuedAt.toISOString(),
          status: "approved" as const,
          ...linked,
          ...(approved.warnings.length > 0 && { warnings: approved.warnings }),
        },
        activityDetails: { cert_id: approved.certId, ...linked },
      };
    },
  });
}

const denyAnswer = requestAnswer.pick({ request_id: true }).extend({ status: z.literal("denied") });

/** `POST …/requests/{request_id}/deny`: denies a pending request. */
export function denyRoute(deps: Deps): Route {
  return route({
    id: "deny_delegation_request",
    method: "POST",
    path: "/v1/service/delegations/requests/{request_id}/deny",
    summary: "Deny a delegation request",
    access: "session",
    ends: true,
    roles: ["approver"],
    idempotent: true,
    params,
    body: reasonBody,
    answer: { status: 200, schema: denyAnswer, description: "The denied request" },
    errors: ["not_found", "request_not_pending"],
    async handle({ caller, params, body }) {
      await denyRequest(deps, caller.accountId, params.request_id, {
        reason: body?.reason ?? null,
        decider: { accountId: caller.person.accountId },
      });
      return { body: { request_id: params.request_id, status: "denied" } };
    },
  });
}
