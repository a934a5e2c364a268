import { readFileSync, statSync } from "node:fs";
import pkcs11 from "pkcs11js";
import { reasonOf } from "../../errors.ts";
import { TokenError, type TokenPlace, WrongPin } from "../messages.ts";

/** Minimum length of a PIN for a module that does not lock after wrong PINs. */
export const MIN_PIN_LENGTH = 32;

/**
 * Attributes of all the vault's objects. Anybody who can write to a SoftHSM token's folder can create objects
 * there without the PIN, with values of their choice. The vault ignores objects without these attributes.
 */
export const GUARDED: pkcs11.Template = [
  { type: pkcs11.CKA_TOKEN, value: true },
  { type: pkcs11.CKA_PRIVATE, value: true },
  { type: pkcs11.CKA_SENSITIVE, value: true },
  { type: pkcs11.CKA_EXTRACTABLE, value: false },
];

const REQUIRED_MECHANISMS = {
  CKM_AES_KEY_GEN: pkcs11.CKM_AES_KEY_GEN,
  CKM_AES_GCM: pkcs11.CKM_AES_GCM,
  CKM_GENERIC_SECRET_KEY_GEN: pkcs11.CKM_GENERIC_SECRET_KEY_GEN,
  CKM_SHA256_HMAC: pkcs11.CKM_SHA256_HMAC,
} as const;

/** Error codes of a refused PIN: CKR_PIN_INCORRECT, _INVALID, _LEN_RANGE, _EXPIRED and _LOCKED. */
const PIN_REFUSALS = new Set([0xa0, 0xa1, 0xa2, 0xa3, 0xa4]);

/** A loaded module, one of its slots, and the only session. */
export type Session = {
  library: pkcs11.PKCS11;
  slot: pkcs11.Handle;
  handle: pkcs11.Handle;
};

/** Loads the module and initializes it with its parameters. Throws a `TokenError` that names its path. */
export function loadModule({ module, parameters }: Pick<TokenPlace, "module" | "parameters">): pkcs11.PKCS11 {
  const library = new pkcs11.PKCS11();
  try {
    library.load(module);
    library.C_Initialize({
      flags: pkcs11.CKF_OS_LOCKING_OK,
      ...(parameters !== undefined && { libraryParameters: parameters }),
    });
  } catch (error) {
    throw new TokenError(`The PKCS#11 module ${module} cannot be loaded: ${reasonOf(error)}`);
  }
  return library;
}

/**
 * Returns the initialized slot whose token has this label, or `undefined`. Throws if two tokens have this
 * label.
 */
export function findSlot(library: pkcs11.PKCS11, label: string): pkcs11.Handle | undefined {
  const found = library.C_GetSlotList(true).filter((slot) => {
    const info = library.C_GetTokenInfo(slot);
    return (info.flags & pkcs11.CKF_TOKEN_INITIALIZED) !== 0 && info.label.trim() === label;
  });
  if (found.length > 1) {
    throw new TokenError(`${found.length} tokens are labelled ${label}; one was expected`);
  }
  return found[0];
}

/**
 * Opens the token with this label and checks that it supports the operations that the vault needs. Without
 * `pin`, uses the PIN in the file and reports any problem with it as a `TokenError`. Throws `WrongPin` if the
 * token refuses a given `pin`.
 */
export function openSession(place: TokenPlace, pin?: string): Session {
  const library = loadModule(place);
  const slot = findSlot(library, place.label);
  if (slot === undefined) {
    throw new TokenError(`The module has no token labelled ${place.label}: run "keyvault init"`);
  }
  requireMechanisms(library, slot);
  if (pin === undefined) return login(library, slot, place.pinFile);
  const short = shortPin(library, pin);
  if (short !== undefined) throw new WrongPin(`The PIN ${short}`);
  return startSession(library, slot, pin, (error) => {
    if (!PIN_REFUSALS.has((error as pkcs11.Pkcs11Error).code)) return new TokenError(reasonOf(error));
    return new WrongPin(`The token does not accept the PIN: ${reasonOf(error)}`);
  });
}

/** Opens a read-write session of the slot and logs in as the user with the PIN in the file. */
export function login(library: pkcs11.PKCS11, slot: pkcs11.Handle, pinFile: string): Session {
  const refused = (error: unknown): TokenError =>
    new TokenError(`The token does not accept the PIN of ${pinFile}: ${reasonOf(error)}`);
  return startSession(library, slot, readPin(library, pinFile), refused);
}

function startSession(
  library: pkcs11.PKCS11,
  slot: pkcs11.Handle,
  pin: string,
  refused: (error: unknown) => Error,
): Session {
  const handle = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  try {
    library.C_Login(handle, pkcs11.CKU_USER, pin);
  } catch (error) {
    throw refused(error);
  }
  return { library, slot, handle };
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
  return isSoftHsm(library) && pin.length < MIN_PIN_LENGTH
    ? `has ${pin.length} characters; SoftHSM needs at least ${MIN_PIN_LENGTH}`
    : undefined;
}

/** Returns whether the module is SoftHSM. Its tokens are files that the vault itself can create. */
export function isSoftHsm(library: pkcs11.PKCS11): boolean {
  return library.C_GetInfo().manufacturerID.trim().startsWith("SoftHSM");
}

/** Throws if a slot lacks mechanisms. The error names all missing mechanisms. */
export function requireMechanisms(library: pkcs11.PKCS11, slot: pkcs11.Handle): void {
  const offered = new Set(library.C_GetMechanismList(slot));
  const missing = Object.entries(REQUIRED_MECHANISMS).filter(([, mechanism]) => !offered.has(mechanism));
  if (missing.length > 0) {
    throw new TokenError(
      `The token lacks mechanisms that are needed: ${missing.map(([name]) => name).join(", ")}`,
    );
  }
}

/** Returns the token's secret keys that have these attributes and the vault's {@link GUARDED} attributes. */
export function findGuarded({ library, handle }: Session, ...attributes: pkcs11.Template): pkcs11.Handle[] {
  const kind = { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY };
  library.C_FindObjectsInit(handle, [kind, ...attributes, ...GUARDED]);
  const objects: pkcs11.Handle[] = [];
  for (let object = library.C_FindObjects(handle); object; object = library.C_FindObjects(handle)) {
    objects.push(object);
  }
  library.C_FindObjectsFinal(handle);
  return objects;
}
