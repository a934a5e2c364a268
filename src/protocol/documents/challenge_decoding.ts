import { BINDING_BYTES } from "../encoding/constants.ts";
import { base64, integer, timestamp } from "../encoding/fields.ts";
import { signature } from "../keys/fields.ts";

/** The members of an answered challenge that are always there (wire format §4). */
export const ANSWER_FIELDS = {
  challenge: base64(BINDING_BYTES),
  challenge_at: timestamp,
  challenge_sig: signature,
};

/** Those that are left out where a proof is not bound to a session or a stream (wire format §4). */
export const OPTIONAL_ANSWER_FIELDS = {
  session_context: base64(BINDING_BYTES),
  stream_id: base64(BINDING_BYTES),
  stream_seq: integer(),
};
