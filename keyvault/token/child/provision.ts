import { randomBytes } from "node:crypto";
import pkcs11 from "pkcs11js";
import type { TokenPlace } from "../messages.ts";
import { TokenError } from "../token_error.ts";
import { createMissingKeys } from "./objects.ts";
import { findSlot, loadModule, login, readPin, requireMechanisms } from "./session.ts";

const LABEL_BYTES = 32;

/**
 * Makes the token ready: when `initialise`, the module's free slot becomes a token with this label and the
 * PIN of the file; then the first key-encryption key and the audit key are generated inside it unless they
 * are there. Gives the labels of what it made.
 *
 * The security officer's PIN is random and forgotten: it could only reset the user's PIN, which the vault
 * never needs.
 */
export function provision(place: TokenPlace, initialise: boolean): string[] {
  const library = loadModule(place);
  if (initialise && findSlot(library, place.label) === undefined) initialiseToken(library, place);
  const slot = findSlot(library, place.label);
  if (slot === undefined) throw new TokenError(`The module has no token labelled ${place.label}`);
  requireMechanisms(library, slot);
  const session = login(library, slot, place.pinFile);
  const created = createMissingKeys(session);
  library.C_Finalize();
  return created;
}

function initialiseToken(library: pkcs11.PKCS11, place: TokenPlace): void {
  const free = library
    .C_GetSlotList(true)
    .find((slot) => (library.C_GetTokenInfo(slot).flags & pkcs11.CKF_TOKEN_INITIALIZED) === 0);
  if (free === undefined) throw new TokenError("The module has no free slot for a token");
  const officerPin = randomBytes(32).toString("hex");
  library.C_InitToken(free, officerPin, place.label.padEnd(LABEL_BYTES));
  const slot = findSlot(library, place.label);
  if (slot === undefined) throw new TokenError("The module lost the token it had just made");
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  library.C_Login(session, pkcs11.CKU_SO, officerPin);
  library.C_InitPIN(session, readPin(library, place.pinFile));
  library.C_Logout(session);
  library.C_CloseSession(session);
}
