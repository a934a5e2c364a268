import { UserError } from "../errors.ts";

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
