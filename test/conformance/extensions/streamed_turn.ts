import {
  ANSWER_FIELDS,
  type ChallengeBinding,
  OPTIONAL_ANSWER_FIELDS,
  requireStreamPair,
} from "../../../src/protocol/documents/challenge.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import { type Decoder, object } from "../../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import type { HybridSignature } from "../../../src/protocol/keys/hybrid.ts";
import {
  CHALLENGE_KNOWN_RULE,
  CHALLENGE_SIGNATURE_RULE,
  CHALLENGE_SPENT_RULE,
  FRESHNESS_RULE,
  SESSION_CONTEXT_RULE,
  STREAM_RULE,
} from "../../../src/protocol/verification/challenge_rules.ts";
import type { Evidence, Verification, VerifyOptions } from "../../../src/protocol/verification/evidence.ts";
import { bundleSteps } from "../../../src/protocol/verification/rule_order.ts";
import {
  evaluateRules,
  type Findings,
  type Step,
  violation,
} from "../../../src/protocol/verification/rules.ts";
import {
  askStore,
  checkSignatures,
  spendChallenge,
} from "../../../src/protocol/verification/verify_bundle.ts";
import { reasonOf, statusOf } from "../../../src/protocol/violations.ts";
import { type SessionToken, sessionTokenViolation } from "./session_token.ts";

/** One turn of a session: a signed challenge, with a token instead of a chain (wire format §4). */
export type StreamedTurn = ChallengeBinding & {
  challenge_sig: HybridSignature;
};

const decodeFields: Decoder<StreamedTurn> = object(ANSWER_FIELDS, OPTIONAL_ANSWER_FIELDS);

/**
 * Parses and decodes an untrusted turn strictly. Its members are a proof bundle's challenge members (wire
 * format §5). Throws `ProtocolError`, also `missing_field` if only one stream field is present.
 */
export function decodeStreamedTurn(bytes: Uint8Array): StreamedTurn {
  const turn = decodeFields(parseJson(bytes));
  requireStreamPair(turn);
  return turn;
}

export type TurnOptions = Pick<
  VerifyOptions,
  "now" | "required_scope" | "session_context" | "stream" | "challengeStore"
> & {
  secret: Uint8Array;
};

/**
 * Verifies one turn of a session: the token, then the challenge as in steps 2 to 4, 7 and 8 of wire format
 * §8, then the required scope. An invalid token causes no signature check. Later revocations are not noticed,
 * so `valid_until` must be soon. Throws `ProtocolError` `invalid_integer` if `now` is not a safe integer.
 * Rejects if the challenge store or the crypto library fails.
 */
export async function verifyStreamedTurn(
  token: SessionToken,
  turn: StreamedTurn,
  options: TurnOptions,
): Promise<Verification> {
  if (!Number.isSafeInteger(options.now)) {
    throw new ProtocolError("invalid_integer", "now must be a whole number of Unix seconds");
  }
  const { agent_id, agent_pub_key } = token;
  const evidence: Evidence = { bundle: { ...turn, agent_id, agent_pub_key, delegations: [] }, options };
  const findings = evaluateRules(orderTurnSteps(evidence, token, options));
  await askStore(findings, evidence);
  await checkSignatures(findings, evidence);
  await spendChallenge(findings, evidence);
  return toVerification(findings, token);
}

function orderTurnSteps(evidence: Evidence, token: SessionToken, options: TurnOptions): Step[] {
  const tokenViolation = sessionTokenViolation(token, options.secret, options.now);
  const { required_scope } = options;
  return [
    {
      name: "session_token",
      kind: "evidence",
      check: () =>
        tokenViolation === undefined ? undefined : violation("session_token_invalid", tokenViolation),
    },
    ...bundleSteps(evidence, [
      SESSION_CONTEXT_RULE,
      CHALLENGE_KNOWN_RULE,
      STREAM_RULE,
      FRESHNESS_RULE,
      CHALLENGE_SIGNATURE_RULE,
      CHALLENGE_SPENT_RULE,
    ]),
    {
      name: "required_scope",
      kind: "permission",
      check: () =>
        required_scope === undefined || token.granted_scope.includes(required_scope)
          ? undefined
          : violation(
              "scope_denied",
              `required scope ${JSON.stringify(required_scope)} not in the session's scope`,
            ),
    },
  ];
}

function toVerification(findings: Findings, token: SessionToken): Verification {
  const violation = findings.first();
  const common = { checks: findings.checks, genuine: findings.isSound(), consulted: [] };
  if (violation === undefined) {
    const { human_id, agent_id, granted_scope } = token;
    return { valid: true, human_id, agent_id, granted_scope, identity_status: "authorized_agent", ...common };
  }
  return {
    valid: false,
    identity_status: statusOf(violation),
    error_reason: reasonOf(violation),
    violation,
    ...common,
  };
}
