import { parseJson, plainJson } from "../protocol/encoding/json.ts";
import { type Exchange, MAX_ANSWER_BYTES } from "./exchange.ts";

/**
 * The result of a call to verify, in the rows of the enforcement table (specification §4): an explicit allow,
 * the service's own refusals, and everything that is not a decision. `invalid_scope` is a 400 of the latter:
 * the application asks for something that is not a scope, and the caller's proof was not looked at.
 */
export type Finding =
  | "allow"
  | "deny"
  | "indeterminate"
  | "unknown_decision"
  | "unparseable"
  | "bad_proof"
  | "invalid_scope"
  | "unexpected_status"
  | "timeout"
  | "network"
  | "answer_too_large";

/**
 * How the application refuses: the status that it answers with, a stable code and a sentence that gives
 * nothing away.
 */
export type Refusal = { readonly status: 403 | 503; readonly code: string; readonly message: string };

/** The action that the enforcement table demands: execute exactly when there is no refusal. */
export type Ruling = {
  finding: Finding;
  /** HTTP status of verify; `undefined` when no whole answer arrived. */
  status: number | undefined;
  /** The answer's members; empty when it is not a JSON object. */
  answer: Readonly<Record<string, unknown>>;
  refusal: Refusal | undefined;
};

const MAX_DEPTH = 32;
const MAX_REASON = 256;

/** 403: nothing was shown that permits the action. */
export const NO_AUTHORITY: Refusal = Object.freeze({
  status: 403,
  code: "no_authority_demonstrated",
  message: "No authority was demonstrated for this action",
});

/** 503: there is no decision, so nothing is done. */
export const NO_DECISION: Refusal = Object.freeze({
  status: 503,
  code: "verification_unavailable",
  message: "Authority could not be verified; nothing was done",
});

/**
 * Rules on the answer of verify by the enforcement table (specification §4). Executes on status 200 with the
 * decision `allow` only.
 */
export function rule(exchange: Exchange): Ruling {
  if (!exchange.answered) return refuse(exchange.fault, undefined, {}, NO_DECISION);
  const { status, body } = exchange;
  const answer = readObject(body);
  if (status === 400 && errorCodeOf(answer) === "invalid_scope") {
    return refuse("invalid_scope", status, answer ?? {}, NO_DECISION);
  }
  if (status === 400) return refuse("bad_proof", status, answer ?? {}, NO_AUTHORITY);
  if (status !== 200) return refuse("unexpected_status", status, answer ?? {}, NO_DECISION);
  if (answer === undefined) return refuse("unparseable", status, {}, NO_DECISION);
  switch (answer.decision) {
    case "allow":
      return { finding: "allow", status, answer, refusal: undefined };
    case "deny":
      return refuse("deny", status, answer, denial(answer.decision_reason));
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

function denial(reason: unknown): Refusal {
  const code = typeof reason === "string" && reason !== "" ? reason.slice(0, MAX_REASON) : "denied";
  return Object.freeze({ status: 403, code, message: "The agent's authority does not permit this action" });
}

/** The code of an answer that is one of the service's errors. */
function errorCodeOf(answer: Readonly<Record<string, unknown>> | undefined): unknown {
  return isObject(answer?.error) ? answer.error.code : undefined;
}

/** Members of a strictly read JSON object: a key given twice makes it unreadable rather than ambiguous. */
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
