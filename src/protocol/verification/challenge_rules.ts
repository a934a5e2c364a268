import { BINDING_BYTES, CHALLENGE_WINDOW_SECONDS } from "../encoding/constants.ts";
import type { Violation } from "../violations.ts";
import type { Evidence } from "./evidence.ts";
import { type BundleRule, hasBytes, violation } from "./rules.ts";

/** Step 2 of wire format §8: the session context of the proof equals the verifier's own session context. */
export const SESSION_CONTEXT_RULE: BundleRule = {
  name: "session_context",
  kind: "evidence",
  check: ({ bundle: { session_context: presented }, options: { session_context: own } }) => {
    if (![presented, own].every((value) => value === undefined || hasBytes(value, BINDING_BYTES))) {
      return violation("invalid_session_context", "session_context is not 32 bytes");
    }
    if (presented === own) return undefined;
    if (presented === undefined) {
      return violation("missing_session_context", "bundle has no session_context but verifier requires one");
    }
    return own === undefined
      ? violation(
          "session_context_unverifiable",
          "bundle has session_context but verifier did not provide a session context",
        )
      : violation("session_context_mismatch", "bundle session_context does not match verifier context");
  },
};

/** Step 3 of wire format §8: the service issued the challenge, and no proof has spent it yet. */
export const CHALLENGE_KNOWN_RULE: BundleRule = { name: "challenge_known", kind: "evidence" };

/** Step 4 of wire format §8: the proof is the next one in the verifier's stream. */
export const STREAM_RULE: BundleRule = {
  name: "stream",
  kind: "evidence",
  check: ({ bundle: { stream_id, stream_seq }, options: { stream } }) => {
    if (stream_id === undefined && stream_seq === undefined) {
      return stream === undefined
        ? undefined
        : violation("missing_stream_context", "bundle has no stream_id but verifier requires one");
    }
    if (stream_id === undefined || !hasBytes(stream_id, BINDING_BYTES)) {
      return violation("invalid_stream_id", "stream_id is not 32 bytes");
    }
    if (stream_seq === undefined || !(stream_seq >= 1)) {
      return violation("invalid_stream_seq", "stream_seq is not at least 1");
    }
    return checkTurn(stream_id, stream_seq, stream);
  },
};

/** The first half of step 7 of wire format §8: the agent signed the challenge within the last 300 seconds. */
export const FRESHNESS_RULE: BundleRule = {
  name: "challenge_freshness",
  kind: "evidence",
  check: ({ bundle, options }) => {
    const age = options.now - bundle.challenge_at;
    return age >= 0 && age <= CHALLENGE_WINDOW_SECONDS
      ? undefined
      : violation("stale_challenge", `challenge is ${age} seconds old (max ${CHALLENGE_WINDOW_SECONDS})`);
  },
};

/** The second half of step 7 of wire format §8: the signature over `challengeSignBytes` is valid. */
export const CHALLENGE_SIGNATURE_RULE: BundleRule = { name: "challenge_signature", kind: "evidence" };

/** Step 8 of wire format §8: this proof spends the challenge, which was open until then. */
export const CHALLENGE_SPENT_RULE: BundleRule = { name: "challenge_spent", kind: "evidence" };

function checkTurn(
  streamId: string,
  turn: number,
  stream: Evidence["options"]["stream"],
): Violation | undefined {
  if (stream === undefined) {
    return violation(
      "stream_context_unverifiable",
      "bundle has stream_id but verifier did not provide a stream context",
    );
  }
  if (streamId !== stream.stream_id) {
    return violation("stream_id_mismatch", "bundle stream_id does not match verifier stream context");
  }
  const last = stream.last_seen_seq;
  if (turn === last + 1) return undefined;
  return turn <= last
    ? violation("stream_seq_replay", `stream_seq ${turn} already seen (last=${last})`)
    : violation("stream_seq_skip", `stream_seq ${turn} skips turns (last=${last})`);
}
