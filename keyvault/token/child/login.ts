import { readFileSync, statSync } from "node:fs";
import pkcs11 from "pkcs11js";
import { reasonOf } from "../../errors.ts";
import {
  type PinFlag,
  type PinHold,
  PinWithheld,
  TokenError,
  type TokenPlace,
  WrongPin,
} from "../messages.ts";
import { openPinTries, type PinTries } from "./pin_tries.ts";

/** Minimum length of a PIN for a module that does not lock after wrong PINs. */
export const MIN_PIN_LENGTH = 32;

/** Consecutive logins without an answer that the vault makes automatically. HSMs lock after three or more. */
const MOST_UNANSWERED = 2;

const FLAGS: readonly (readonly [PinFlag, number])[] = [
  ["count_low", pkcs11.CKF_USER_PIN_COUNT_LOW],
  ["final_try", pkcs11.CKF_USER_PIN_FINAL_TRY],
  ["locked", pkcs11.CKF_USER_PIN_LOCKED],
  ["to_be_changed", pkcs11.CKF_USER_PIN_TO_BE_CHANGED],
];

const PIN_REFUSALS = new Set([
  pkcs11.CKR_PIN_INCORRECT,
  pkcs11.CKR_PIN_INVALID,
  pkcs11.CKR_PIN_LEN_RANGE,
  pkcs11.CKR_PIN_EXPIRED,
  pkcs11.CKR_PIN_LOCKED,
]);

/**
 * Errors that a module returns without a check of the PIN. After any other error, the try counts. It also
 * counts if the token then reports a wrong PIN.
 */
const UNCHECKED = new Set([
  pkcs11.CKR_HOST_MEMORY,
  pkcs11.CKR_SLOT_ID_INVALID,
  pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED,
  pkcs11.CKR_DEVICE_ERROR,
  pkcs11.CKR_DEVICE_MEMORY,
  pkcs11.CKR_DEVICE_REMOVED,
  pkcs11.CKR_TOKEN_NOT_PRESENT,
  pkcs11.CKR_TOKEN_NOT_RECOGNIZED,
  pkcs11.CKR_SESSION_CLOSED,
  pkcs11.CKR_SESSION_HANDLE_INVALID,
  pkcs11.CKR_USER_ANOTHER_ALREADY_LOGGED_IN,
  pkcs11.CKR_USER_PIN_NOT_INITIALIZED,
]);

/** A slot of a loaded module. */
export type Slot = { library: pkcs11.PKCS11; slot: pkcs11.Handle };

/** A PIN that a person gave. `finalTry` is true if the token may lock after this PIN. */
export type GivenPin = { pin: string; finalTry: boolean };

/** Reads which token it is, and what it reports about the user's PIN. Throws if it cannot be read. */
function readToken({ library, slot }: Slot): { serial: string; flags: readonly PinFlag[] } {
  const { label, serialNumber, flags } = library.C_GetTokenInfo(slot);
  const names = FLAGS.filter(([, bit]) => (flags & bit) !== 0).map(([name]) => name);
  return { serial: `${label.trim()} ${serialNumber.trim()}`, flags: names };
}

/** Returns what the token reports about the user's PIN now, or `last` if the token cannot be read. */
export function readPinFlags(slot: Slot, last: readonly PinFlag[]): readonly PinFlag[] {
  try {
    return readToken(slot).flags;
  } catch {
    return last;
  }
}

/**
 * Logs in with the PIN in the file and returns the session. Throws `PinWithheld` without a try if the token
 * refused this PIN before, if a wrong PIN would lock it, or if it is locked. Also throws it if the token
 * refuses the PIN now. Throws a `TokenError` for every other fault.
 */
export function login(slot: Slot, place: TokenPlace): pkcs11.Handle {
  const pin = readPin(slot.library, place.pinFile);
  const { serial, flags } = readToken(slot);
  const tries = openPinTries(place.tries, serial);
  const hold =
    holdOf(tries, pin, flags) ?? (isSoftHsm(slot.library) ? undefined : unansweredHold(tries, flags));
  if (hold !== undefined) {
    throw new PinWithheld(describeHold(hold, place), { hold, tried: false, pin: flags });
  }
  try {
    return startSession(slot, pin, tries, () => tries.takeBack());
  } catch (error) {
    if (!(error instanceof PinRefused)) throw error;
    const details = { hold: error.hold, tried: true, pin: readPinFlags(slot, flags) };
    throw new PinWithheld(describeHold(error.hold, place, ` (${error.message})`), details);
  }
}

/**
 * Logs in with a PIN that a person gave. Throws `WrongPin` if the token refuses it. Throws `PinWithheld`
 * without a try if the PIN is locked, or if a wrong PIN would lock it, unless the person accepts this.
 */
export function loginAsPerson(slot: Slot, place: TokenPlace, { pin, finalTry }: GivenPin): pkcs11.Handle {
  const { serial, flags } = readToken(slot);
  const short = shortPin(slot.library, pin);
  if (short !== undefined) throw new WrongPin(`The PIN ${short}`, flags);
  if (!finalTry && (flags.includes("locked") || flags.includes("final_try"))) {
    const hold = flags.includes("locked") ? "pin_locked" : "pin_final_try";
    throw new PinWithheld(describeHold(hold, place), { hold, tried: false, pin: flags });
  }
  const tries = openPinTries(place.tries, serial);
  const verify = (handle: pkcs11.Handle): void => {
    slot.library.C_Logout(handle);
    slot.library.C_Login(handle, pkcs11.CKU_USER, pin);
    tries.accept(pin);
  };
  try {
    return startSession(slot, pin, tries, verify);
  } catch (error) {
    if (!(error instanceof PinRefused)) throw error;
    const now = readPinFlags(slot, flags);
    throw new WrongPin(`The token does not accept the PIN: ${error.message}${describeFlags(now)}`, now);
  }
}

function holdOf(tries: PinTries, pin: string, flags: readonly PinFlag[]): PinHold | undefined {
  if (flags.includes("locked")) return "pin_locked";
  if (flags.includes("final_try")) return "pin_final_try";
  return tries.isRefused(pin) ? "pin_refused" : undefined;
}

function unansweredHold(tries: PinTries, flags: readonly PinFlag[]): PinHold | undefined {
  const counted = flags.includes("count_low") && tries.unanswered() > 0;
  return counted || tries.unanswered() >= MOST_UNANSWERED ? "pin_unanswered" : undefined;
}

function describeHold(hold: PinHold, { pinFile }: TokenPlace, code = ""): string {
  switch (hold) {
    case "pin_refused":
      return `The token refused the PIN of ${pinFile}${code}, so the vault does not try this PIN again: correct the file and start again, or run "keyvault unseal"`;
    case "pin_unanswered":
      return 'The token gave no answer to the last logins and may have counted them as wrong: check the token and the PIN, then run "keyvault unseal"';
    case "pin_final_try":
      return 'The token locks its PIN after one more wrong PIN: check the PIN, then run "keyvault unseal --final-try"';
    case "pin_locked":
      return `The token's PIN is locked${code}: its security officer must unlock it, then run "keyvault unseal"`;
  }
}

function describeFlags(flags: readonly PinFlag[]): string {
  if (flags.includes("locked")) return "; the PIN is locked now";
  return flags.includes("final_try") ? "; one more wrong PIN locks it" : "";
}

/** The token refused a PIN. The message is the name of the error code. */
class PinRefused extends Error {
  readonly hold: PinHold;

  constructor(code: number, name: string) {
    super(name);
    this.hold = code === pkcs11.CKR_PIN_LOCKED ? "pin_locked" : "pin_refused";
  }
}

/** `loggedIn` runs if the module has a login already and has therefore not checked the PIN. */
function startSession(
  { library, slot }: Slot,
  pin: string,
  tries: PinTries,
  loggedIn: (handle: pkcs11.Handle) => void,
): pkcs11.Handle {
  const handle = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  tries.begin();
  try {
    try {
      library.C_Login(handle, pkcs11.CKU_USER, pin);
      tries.accept(pin);
    } catch (error) {
      if ((error as pkcs11.Pkcs11Error).code !== pkcs11.CKR_USER_ALREADY_LOGGED_IN) throw error;
      loggedIn(handle);
    }
    return handle;
  } catch (error) {
    const { code } = error as pkcs11.Pkcs11Error;
    if (PIN_REFUSALS.has(code)) {
      tries.refuse(pin);
      throw new PinRefused(code, reasonOf(error));
    }
    const isCounted = readPinFlags({ library, slot }, []).includes("count_low");
    if (UNCHECKED.has(code) && !isCounted) tries.takeBack();
    throw error instanceof TokenError ? error : new TokenError(`The login failed: ${reasonOf(error)}`);
  }
}

/**
 * Reads the PIN in the file without surrounding white space. Rejects a file that everybody may read. SoftHSM
 * never locks after wrong PINs, so a PIN for it must have at least {@link MIN_PIN_LENGTH} characters.
 */
export function readPin(library: pkcs11.PKCS11, pinFile: string): string {
  let pin: string;
  let mode: number;
  try {
    pin = readFileSync(pinFile, "utf8").trim();
    mode = statSync(pinFile).mode;
  } catch (error) {
    const isGone = (error as NodeJS.ErrnoException).code === "ENOENT";
    const why = isGone ? "it does not exist; put it back" : reasonOf(error);
    throw new TokenError(`The PIN file ${pinFile} cannot be read: ${why}`);
  }
  if ((mode & 0o007) !== 0) {
    throw new TokenError(`The PIN file ${pinFile} is open to everybody: run chmod 600 on it`);
  }
  const short = shortPin(library, pin);
  if (short !== undefined) throw new TokenError(`The PIN of ${pinFile} ${short}`);
  return pin;
}

function shortPin(library: pkcs11.PKCS11, pin: string): string | undefined {
  if (pin.length === 0) return "is empty: write the token's PIN to it";
  return isSoftHsm(library) && pin.length < MIN_PIN_LENGTH
    ? `has ${pin.length} characters; SoftHSM needs at least ${MIN_PIN_LENGTH}`
    : undefined;
}

/** Returns whether the module is SoftHSM. Its tokens are files that the vault itself can create. */
function isSoftHsm(library: pkcs11.PKCS11): boolean {
  return library.C_GetInfo().manufacturerID.trim().startsWith("SoftHSM");
}
