import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { constraint, constraintList, expirySeconds } from "../../input/delegation_fields.ts";
import { numberOf } from "../../input/pagination.ts";
import { MAX_SCOPES } from "../../input/platform_fields.ts";
import { idText, isoTime, isoTimeInput } from "../../input/schemas.ts";
import { validate } from "../../input/validate.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { MAX_SCOPE_LENGTH_BYTES } from "../../protocol/encoding/constants.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import { type Route, route } from "../../route.ts";
import { showTime } from "../delegation_answers.ts";
import { findRequest } from "../delegation_records.ts";
import { readExpiry } from "../requested_end.ts";
import { judgeApproval } from "./judge_approval.ts";
import { findSdkWarnings, sdkWarnings } from "./sdk_warnings.ts";

const MAX_CONSTRAINT_TEXT = 8_000;
const CONSTRAINT_LIMITS = { bytes: 4 * MAX_CONSTRAINT_TEXT, depth: 32 };

const query = z.object({
  approved_scope: z
    .string()
    .max(MAX_SCOPES * (MAX_SCOPE_LENGTH_BYTES + 1))
    .optional()
    .describe("Scopes separated by spaces; all requested scopes if omitted"),
  constraints: z
    .string()
    .max(MAX_CONSTRAINT_TEXT)
    .optional()
    .describe("A JSON list of constraints in addition to the requested ones"),
  once: z.literal("true").optional(),
  expires_at: isoTimeInput.optional(),
  expires_in: z.preprocess(numberOf, expirySeconds).optional(),
});

const answer = z.object({
  approved_scope: z.array(z.string()),
  constraints: z.array(constraint).describe("The requested constraints, then the added ones"),
  expires_at: isoTime.nullable().describe("null if it would not expire"),
  certificate: z
    .record(z.string(), z.unknown())
    .describe("What would be signed (wire format §4) if it were approved now, without its id"),
  warnings: sdkWarnings,
});

/** The answer of the preview: the content of the certificate that an approval would create. */
export type PreviewAnswer = z.infer<typeof answer>;

/** `GET …/requests/{request_id}/preview`: shows what an approval with these parameters would sign. */
export function previewRoute(deps: { db: Database; clock: Clock }): Route {
  return route({
    id: "preview_delegation_approval",
    method: "GET",
    path: "/v1/service/delegations/requests/{request_id}/preview",
    summary: "See the content of the certificate that an approval would create",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ request_id: idText }),
    query,
    answer: { status: 200, schema: answer, description: "The content of the certificate" },
    errors: [
      "not_found",
      "request_not_pending",
      "scope_not_requested",
      "ceiling_exceeded",
      "invalid_expiry",
      "invalid_constraints",
      "constraint_widened",
    ],
    async handle({ caller, params, query }) {
      const { db, clock } = deps;
      const owner = await findOwner(db, caller.accountId);
      const whole = { accountId: caller.accountId, connectionId: null };
      const approvedScope =
        query.approved_scope?.split(" ", MAX_SCOPES + 1).filter((scope) => scope !== "") ??
        (await findRequest(db, whole, params.request_id, clock.now())).requested_scope;
      const { grant, fields } = await judgeApproval(deps, owner, params.request_id, {
        approvedScope,
        expiry: readExpiry(query),
        constraints: readConstraints(query.constraints),
        once: query.once === "true",
      });
      const { cert_id, ...certificate } = fields;
      return {
        body: {
          approved_scope: fields.scope,
          constraints: fields.constraints,
          expires_at: showTime(grant.end === null ? null : new Date(grant.end * 1000)),
          certificate,
          warnings: findSdkWarnings(fields.constraints),
        },
      };
    },
  });
}

function readConstraints(text = "[]"): z.infer<typeof constraintList> {
  return validate(constraintList, jsonOf(text), "constraints");
}

/** Parses a JSON string as strictly as a body. Throws `invalid_request`. */
function jsonOf(text: string): unknown {
  try {
    return plainJson(parseJson(Buffer.from(text), CONSTRAINT_LIMITS));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new ApiError("invalid_request", `constraints: ${error.message}`);
  }
}
