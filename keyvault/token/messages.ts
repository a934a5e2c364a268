import { UserError } from "../errors.ts";

/** A text encrypted under a version of the key-encryption key: `box` = nonce (12) ‖ ciphertext ‖ tag (16). */
export type Wrapped = { kek: string; box: Uint8Array };

/** File with the child's notes about logins, and the key with which the notes hash refused PINs. */
export type PinTriesPlace = { file: string; key: Uint8Array };

/**
 * Location of the token and its PIN file, which only the child reads. Some modules, such as NSS, need
 * `parameters` when they are loaded.
 */
export type TokenPlace = {
  module: string;
  label: string;
  pinFile: string;
  tries: PinTriesPlace;
  parameters?: string;
};

/** Flags of a token about the user's PIN: CKF_USER_PIN_… of PKCS#11, in lower case. */
export const PIN_FLAGS = ["count_low", "final_try", "locked", "to_be_changed"] as const;
export type PinFlag = (typeof PIN_FLAGS)[number];

/**
 * Why the vault does not log in with the PIN file: the token refused this PIN, two logins had no answer, the
 * next wrong PIN locks the token, or the PIN is locked.
 */
export const PIN_HOLDS = ["pin_refused", "pin_unanswered", "pin_final_try", "pin_locked"] as const;
export type PinHold = (typeof PIN_HOLDS)[number];

/** Number and code of the audit chain's last record, as noted in the token. */
export type NotedHead = { seq: number; mac: Uint8Array };

/**
 * All requests that the child accepts, so no other PKCS#11 function can be reached. Unwrapped bytes are
 * returned XORed with `mask`, because the runtime leaves copies of pipe data in freed memory.
 */
export type TokenRequest =
  | ({ kind: "open" } & TokenPlace)
  | ({ kind: "provision"; initialize: boolean } & TokenPlace)
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
  | { kind: "note_head"; head: NotedHead; replaceAll: boolean }
  | { kind: "offer" }
  | ({ kind: "unseal"; box: Uint8Array; finalTry: boolean } & TokenPlace);

/** Description of an opened token: its keys and the module's own information. */
export type TokenInfo = {
  manufacturer: string;
  model: string;
  serial: string;
  keks: string[];
};

/** Description of an opened token, with what it reports about its PIN. */
export type OpenedToken = TokenInfo & { pin: readonly PinFlag[] };

/** Type of the answer to each request. */
export type TokenAnswers = {
  open: OpenedToken;
  provision: { created: string[] };
  wrap: Wrapped;
  unwrap: Uint8Array;
  chain: Uint8Array[];
  authenticate: Uint8Array[];
  rewrap: (Wrapped | null)[];
  find_versions: (string | null)[];
  rotate: { keks: string[] };
  retire: { keks: string[] };
  health: { keks: string[]; pin: readonly PinFlag[] };
  noted_head: { head: NotedHead | null };
  note_head: Record<string, never>;
  offer: { publicKey: Uint8Array };
  unseal: OpenedToken;
};

/**
 * Why a request failed. `damaged` means that the token works, but the text does not belong to the context and
 * key that it names. `pin` means that the token does not accept the PIN of an unsealing. `withheld` means
 * that the child did not try a PIN, or that the token refused the PIN of the file (`tried`). `offer` means
 * that the PIN was not encrypted for this child. `token` means that the token cannot be used. The child exits
 * after all of these failures except `damaged`.
 */
export type TokenRefusal =
  | { reason: "damaged" | "offer" | "token"; message: string }
  | { reason: "pin"; message: string; pin: readonly PinFlag[] }
  | ({ reason: "withheld"; message: string } & Withheld);

/** Details of a PIN that the vault withholds. `tried` is true if the token has just refused it. */
export type Withheld = { hold: PinHold; tried: boolean; pin: readonly PinFlag[] };

/** One request or reply on the pipe. */
export type RequestFrame = { id: number; request: TokenRequest };
export type ReplyFrame = { id: number } & (
  | { answer: TokenAnswers[TokenRequest["kind"]] }
  | { failure: TokenRefusal }
);

/** The token or its module cannot be used. The child reports this error and exits, and is then restarted. */
export class TokenError extends UserError {
  override readonly name = "TokenError";
}

/**
 * A wrapped text was altered, moved to another context, or wrapped under another key. The token itself works.
 */
export class DamagedBox extends Error {
  override readonly name = "DamagedBox";

  constructor() {
    super("The wrapped text does not belong here");
  }
}

/** The token does not accept a PIN. The message contains the reason but not the PIN. */
export class WrongPin extends UserError {
  override readonly name = "WrongPin";
  readonly pin: readonly PinFlag[];

  constructor(message: string, pin: readonly PinFlag[] = []) {
    super(message);
    this.pin = pin;
  }
}

/** The vault does not try a PIN again, or not without a person's consent. The message says what to do. */
export class PinWithheld extends UserError {
  override readonly name = "PinWithheld";
  readonly details: Withheld;

  constructor(message: string, details: Withheld) {
    super(message);
    this.details = details;
  }
}

/** A PIN was encrypted for another child, or the encrypted PIN was altered in transit. */
export class StaleOffer extends UserError {
  override readonly name = "StaleOffer";

  constructor() {
    super("The PIN was encrypted for another start of the token's process: request a new offer");
  }
}
