import { Problem } from "../problem.ts";

/** The token or its module cannot be used. The child reports it and ends; the parent starts another. */
export class TokenFault extends Problem {
  override readonly name = "TokenFault";
}

/** A wrapped text that was altered, moved to another context, or wrapped under another key. The token is well. */
export class DamagedBox extends Error {
  override readonly name = "DamagedBox";

  constructor() {
    super("The wrapped text does not belong here");
  }
}
