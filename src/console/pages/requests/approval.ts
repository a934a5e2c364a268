import { isDeepStrictEqual } from "node:util";
import type { RequestAnswer } from "../../../delegations/answers.ts";
import type { PreviewAnswer } from "../../../delegations/requests/preview_route.ts";
import { ApiError } from "../../../errors.ts";
import type { KnownConstraint } from "../../../protocol/constraints/constraints.ts";
import { inWords } from "../../core/answers.ts";
import type { Fields } from "../../core/forms/fields.ts";
import type { Visit } from "../../core/page.ts";
import { readerOf } from "../../elements/forms/field_reader.ts";
import { readEnd } from "./end_fields.ts";
import { fieldOfLimit, readLimits } from "./limit_fields.ts";

/** What a person approves, as the API takes it. */
type Approval = { approved_scope: string[]; constraints: KnownConstraint[]; expires_in?: number };

/** What a certificate would say, or why there can be none. */
export type Preview = { said: PreviewAnswer } | { fault: string };

/** Reads what was filled in. Throws `invalid_request`, field by field. */
export function readApproval(visit: Visit, fields: Fields): Approval {
  const reader = readerOf(visit.texts, fields);
  const constraints = readLimits(visit, fields, reader);
  const end = readEnd(visit, reader);
  reader.check();
  return {
    approved_scope: fields.all("approved_scope").filter((scope) => scope !== ""),
    constraints,
    ...end,
  };
}

/** What the certificate would say if what is on the page were approved now. */
export async function previewOf(visit: Visit): Promise<Preview> {
  const { params, call, failure, texts } = visit;
  try {
    const typed = failure?.form === "approve" ? readApproval(visit, failure.typed) : undefined;
    const query = typed && {
      approved_scope: typed.approved_scope.join(" "),
      constraints: JSON.stringify(typed.constraints),
      expires_in: typed.expires_in?.toString(),
    };
    return { said: await call("preview_delegation_approval", { params, ...(query && { query }) }) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error;
    return { fault: texts.errors.messages[error.code] ?? inWords(texts, withoutPlace(error.message)) };
  }
}

/** A refusal of a limit, beside the field of that limit. */
export function besideField(error: unknown, request: RequestAnswer, approval: Approval): unknown {
  if (!(error instanceof ApiError) || !/^(invalid_constraints|constraint_widened)$/.test(error.code)) {
    return error;
  }
  const { constraints: requested } = request;
  const added = approval.constraints.filter((each) => !requested.some((one) => isDeepStrictEqual(one, each)));
  const place = /\bconstraints\.(\d+)/.exec(error.message)?.[1];
  const refused = place === undefined ? undefined : [...requested, ...added][Number(place)];
  const field = refused && fieldOfLimit(String(refused.type));
  const message = withoutPlace(error.message);
  if (field === undefined) return new ApiError(error.code, message);
  return new ApiError("invalid_request", `body.${field}: ${message}`);
}

function withoutPlace(message: string): string {
  const said = message.replace(/^(?:[a-z_]+: )?(?:(?:body|constraints)\.\w+: )?/, "");
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
}
