import { parseJson, plainJson } from "../protocol/encoding/json.ts";
import { type Exchange, MAX_ANSWER_BYTES } from "./service/exchange.ts";

/**
 * The result of a call to verify, one value for each row of the enforcement table (specification §4).
 * `invalid_scope` is a fault of the application: the service did not accept the required scope.
 * `invocation_conflict` is a fault of the caller: it used one invocation id for two actions.
 */
export type Finding =
  | "allow"
  | "deny"
  | "indeterminate"
  | "unknown_decision"
  | "unparseable"
  | "bad_proof"
  | "invalid_scope"
  | "invocation_conflict"
  | "unexpected_status"
  | "timeout"
  | "network"
  | "answer_too_large";

/** The application's refusal: an HTTP status, a stable code, and a message that reveals no details. */
export type Refusal = {
  readonly status: 403 | 503;
  readonly code: string;
  readonly message: string;
  /** The id with which the agent can ask a person, if an approval could resolve the denial. */
  readonly evaluationId?: string;
};

/** The action that the enforcement table requires. The application executes only without a `refusal`. */
export type Ruling = {
  finding: Finding;
  /** HTTP status of verify's response, or `undefined` if no complete response arrived. */
  status: number | undefined;
  /** Fields of verify's response. Empty if the response is not a JSON object. */
  answer: Readonly<Record<string, unknown>>;
  refusal: Refusal | undefined;
};

const MAX_DEPTH = 32;
const MAX_REASON = 256;
const EVALUATION_ID = /^[\w-]{1,256}$/;

/** Refusal with 403: the caller has not proved a permission for this action. */
export const NO_AUTHORITY: Refusal = Object.freeze({
  status: 403,
  code: "no_authority_demonstrated",
  message: "No authority was demonstrated for this action",
});

/** Refusal with 503: there is no decision, so the action does not run. */
export const NO_DECISION: Refusal = Object.freeze({
  status: 503,
  code: "verification_unavailable",
  message: "Authority could not be verified; nothing was done",
});

/** Refusal with 503 that a repetition cannot change: the invocation id belongs to another action. */
const CONFLICT: Refusal = Object.freeze({
  status: 503,
  code: "invocation_conflict",
  message: "The invocation id was used for another action; nothing was done",
});

/**
 * Applies the enforcement table to verify's response (specification §4). Permits execution only for status
 * 200 with the decision `allow`.
 */
export function rule(exchange: Exchange): Ruling {
  if (!exchange.answered) return refuse(exchange.fault, undefined, {}, NO_DECISION);
  const { status, body } = exchange;
  const answer = readObject(body);
  if (status === 400 && errorCodeOf(answer) === "invalid_scope") {
    return refuse("invalid_scope", status, answer ?? {}, NO_DECISION);
  }
  if (status === 400) return refuse("bad_proof", status, answer ?? {}, NO_AUTHORITY);
  if (status === 409 && errorCodeOf(answer) === "invocation_conflict") {
    return refuse("invocation_conflict", status, answer ?? {}, CONFLICT);
  }
  if (status !== 200) return refuse("unexpected_status", status, answer ?? {}, NO_DECISION);
  if (answer === undefined) return refuse("unparseable", status, {}, NO_DECISION);
  switch (answer.decision) {
    case "allow":
      return { finding: "allow", status, answer, refusal: undefined };
    case "deny":
      return refuse("deny", status, answer, denial(answer));
    case "indeterminate":
      return refuse("indeterminate", status, answer, NO_DECISION);
    default:
      return refuse("unknown_decision", status, answer, NO_DECISION);
  }
}

function refuse(
  finding: Finding,
  status: number | undefined,
  answer: Readonly<Record<string, unknown>>,
  refusal: Refusal,
): Ruling {
  return { finding, status, answer, refusal };
}

function denial({ decision_reason: reason, ...answer }: Ruling["answer"]): Refusal {
  const code = typeof reason === "string" && reason !== "" ? reason.slice(0, MAX_REASON) : "denied";
  const message = "The agent's authority does not permit this action";
  const { evaluation_id: id, access_request: request } = answer;
  const isAskable = isObject(request) && typeof id === "string" && EVALUATION_ID.test(id);
  return Object.freeze({ status: 403, code, message, ...(isAskable && { evaluationId: id }) });
}

/** Returns the code of the service's error, if the answer contains one. */
export function errorCodeOf(answer: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const code = isObject(answer?.error) ? answer.error.code : undefined;
  return typeof code === "string" && /^\w{1,64}$/.test(code) ? code : undefined;
}

/** Parses a JSON object strictly. Returns `undefined` for any other body, and if a key occurs twice. */
function readObject(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = plainJson(parseJson(body, { bytes: MAX_ANSWER_BYTES, depth: MAX_DEPTH }));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
