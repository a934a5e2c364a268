import { decodeBase64 } from "../encoding/base64.ts";
import { BINDING_BYTES } from "../encoding/constants.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { base64, integer, timestamp } from "../encoding/fields.ts";
import { signature } from "../keys/hybrid.ts";

/** The values that an agent's challenge signature covers (wire format §4). Has both stream fields or none. */
export type ChallengeBinding = {
  /** Canonical base64 of 32 bytes. */
  challenge: string;
  /** Unix seconds. */
  challenge_at: number;
  /** Canonical base64 of 32 bytes. */
  session_context?: string;
  /** Canonical base64 of 32 bytes. */
  stream_id?: string;
  /** Starts at 1. */
  stream_seq?: number;
};

/**
 * Returns the 40, 72, 80 or 112 bytes that an agent signs to answer a challenge: `challenge ‖
 * u64be(challenge_at) [‖ session_context] [‖ stream_id ‖ i64be(stream_seq)]` (wire format §4).
 *
 * Throws `ProtocolError` `invalid_base64`, `wrong_length`, `invalid_integer`, or `missing_field` if only one
 * of the stream fields is present.
 */
export function challengeSignBytes(binding: ChallengeBinding): Uint8Array {
  const { challenge, challenge_at, session_context, stream_id, stream_seq } = binding;
  const parts = [decodeBase64(challenge, BINDING_BYTES), unsigned(challenge_at)];
  if (session_context !== undefined) parts.push(decodeBase64(session_context, BINDING_BYTES));
  requireStreamPair(binding);
  if (stream_id !== undefined && stream_seq !== undefined) {
    parts.push(decodeBase64(stream_id, BINDING_BYTES), signed(stream_seq));
  }
  return Buffer.concat(parts);
}

/** Throws `ProtocolError` `missing_field` if only one of the two stream fields is present. */
export function requireStreamPair({ stream_id, stream_seq }: Partial<ChallengeBinding>): void {
  if ((stream_id === undefined) !== (stream_seq === undefined)) {
    throw new ProtocolError(
      "missing_field",
      "stream_id and stream_seq must both be present or both be absent",
    );
  }
}

function unsigned(value: number): Uint8Array {
  if (value < 0) throw new ProtocolError("invalid_integer", "must not be before 1970");
  return signed(value);
}

function signed(value: number): Uint8Array {
  if (!Number.isSafeInteger(value)) throw new ProtocolError("invalid_integer", "not a safe integer");
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

/** Decoders of the required members of an answered challenge (wire format §4). */
export const ANSWER_FIELDS = {
  challenge: base64(BINDING_BYTES),
  challenge_at: timestamp,
  challenge_sig: signature,
};

/** Decoders of the members that an unbound proof lacks: session context and stream (wire format §4). */
export const OPTIONAL_ANSWER_FIELDS = {
  session_context: base64(BINDING_BYTES),
  stream_id: base64(BINDING_BYTES),
  stream_seq: integer(),
};
