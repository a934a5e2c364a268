import { UserError } from "../errors.ts";

/** A text encrypted under a version of the key-encryption key: `box` = nonce (12) ‖ ciphertext ‖ tag (16). */
export type Wrapped = { kek: string; box: Uint8Array };

/**
 * Where the token is and what opens it. The PIN itself is read from `pinFile` by the child and by nobody
 * else. `parameters` is handed to the module as it is loaded, for those that want some (NSS does).
 */
export type TokenPlace = { module: string; label: string; pinFile: string; parameters?: string };

/** The number and the code of the audit chain's last record, as the token has them noted. */
export type NotedHead = { seq: number; mac: Uint8Array };

/**
 * What the child may be asked. Nothing else is understood, so nothing else of PKCS#11 can be reached.
 * Unwrapped bytes are returned XORed with `mask`, of its length: the runtime leaves copies of what went over
 * the pipe in memory that it has freed.
 */
export type TokenRequest =
  | ({ kind: "open" } & TokenPlace)
  | ({ kind: "provision"; initialise: boolean } & TokenPlace)
  | { kind: "wrap"; plain: Uint8Array; context: Uint8Array }
  | { kind: "unwrap"; wrapped: Wrapped; context: Uint8Array; mask: Uint8Array }
  | { kind: "chain"; previous: Uint8Array; texts: Uint8Array[] }
  | { kind: "authenticate"; texts: Uint8Array[] }
  | { kind: "rewrap"; boxes: { wrapped: Wrapped; context: Uint8Array }[] }
  | { kind: "find_versions"; boxes: { wrapped: Wrapped; context: Uint8Array }[] }
  | { kind: "rotate" }
  | { kind: "retire"; kek: string }
  | { kind: "health" }
  | { kind: "noted_head" }
  | { kind: "note_head"; head: NotedHead; anew: boolean }
  | { kind: "offer" }
  | ({ kind: "unseal"; box: Uint8Array } & TokenPlace);

/** What an opened token is: found keys and the module's own words about itself. */
export type TokenInfo = {
  manufacturer: string;
  model: string;
  serial: string;
  keks: string[];
};

/** The answer's type for each request. */
export type TokenAnswers = {
  open: TokenInfo;
  provision: { created: string[] };
  wrap: Wrapped;
  unwrap: Uint8Array;
  chain: Uint8Array[];
  authenticate: Uint8Array[];
  rewrap: (Wrapped | null)[];
  find_versions: (string | null)[];
  rotate: { keks: string[] };
  retire: { keks: string[] };
  health: { keks: string[] };
  noted_head: { head: NotedHead | null };
  note_head: Record<string, never>;
  offer: { publicKey: Uint8Array };
  unseal: TokenInfo;
};

/**
 * Why a request failed: `damaged` when the text does not belong to the context and key it is said to (the
 * token is well), `pin` when the token does not accept the PIN of an unsealing, `offer` when that was not
 * encrypted for this child, `token` for everything that makes the token unusable. After all but the first the
 * child ends itself.
 */
export type TokenRefusal = { reason: "damaged" | "pin" | "offer" | "token"; message: string };

/** One request or reply on the pipe. */
export type RequestFrame = { id: number; request: TokenRequest };
export type ReplyFrame = { id: number } & (
  | { answer: TokenAnswers[TokenRequest["kind"]] }
  | { failure: TokenRefusal }
);

/** The token or its module cannot be used. The child reports it and ends; the parent starts another. */
export class TokenError extends UserError {
  override readonly name = "TokenError";
}

/**
 * A wrapped text that was altered, moved to another context, or wrapped under another key. The token is well.
 */
export class DamagedBox extends Error {
  override readonly name = "DamagedBox";

  constructor() {
    super("The wrapped text does not belong here");
  }
}

/** The token does not accept a PIN. The message says why, without the PIN. */
export class WrongPin extends UserError {
  override readonly name = "WrongPin";
}

/** A PIN that was encrypted for another child, or altered on its way. */
export class StaleOffer extends UserError {
  override readonly name = "StaleOffer";

  constructor() {
    super("The PIN was encrypted for another start of the token's process: ask for its offer again");
  }
}
