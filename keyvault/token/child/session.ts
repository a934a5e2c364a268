import pkcs11 from "pkcs11js";
import { reasonOf } from "../../errors.ts";
import { TokenError, type TokenPlace } from "../messages.ts";
import { type GivenPin, login, loginAsPerson, type Slot } from "./login.ts";

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

/** A loaded module, one of its slots, and the only session. */
export type Session = Slot & { handle: pkcs11.Handle };

/**
 * Loads the module and initializes it with its parameters, unless something in this process has initialized
 * it. Throws a `TokenError` that names its path.
 */
export function loadModule({ module, parameters }: Pick<TokenPlace, "module" | "parameters">): pkcs11.PKCS11 {
  const library = new pkcs11.PKCS11();
  try {
    library.load(module);
    library.C_Initialize({
      flags: pkcs11.CKF_OS_LOCKING_OK,
      ...(parameters !== undefined && { libraryParameters: parameters }),
    });
  } catch (error) {
    if ((error as pkcs11.Pkcs11Error).code === pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED) return library;
    throw new TokenError(`The PKCS#11 module ${module} cannot be loaded: ${reasonOf(error)}`);
  }
  return library;
}

/**
 * Returns the initialized slot whose token has this label, or `undefined`. Ignores slots whose token cannot
 * be read, unless the token may be in one of them. Throws if two tokens have this label.
 */
export function findSlot(library: pkcs11.PKCS11, label: string): pkcs11.Handle | undefined {
  const faults: string[] = [];
  const found = library.C_GetSlotList(true).filter((slot) => {
    try {
      const info = library.C_GetTokenInfo(slot);
      return (info.flags & pkcs11.CKF_TOKEN_INITIALIZED) !== 0 && info.label.trim() === label;
    } catch (error) {
      faults.push(reasonOf(error));
      return false;
    }
  });
  if (found.length > 1) {
    throw new TokenError(
      `${found.length} tokens are labelled ${label}; one was expected: remove the others or change their labels`,
    );
  }
  if (found.length === 0 && faults.length > 0) {
    throw new TokenError(`No token labelled ${label} can be read; slots report ${faults.join(", ")}`);
  }
  return found[0];
}

/**
 * Opens the token with this label and checks that it supports the operations that the vault needs. Logs in
 * with the PIN in the file, like {@link login}, or with a given PIN, like {@link loginAsPerson}.
 */
export function openSession(place: TokenPlace, given?: GivenPin): Session {
  const library = loadModule(place);
  const slot = findSlot(library, place.label);
  if (slot === undefined) {
    throw new TokenError(`The module has no token labelled ${place.label}: run "keyvault init"`);
  }
  requireMechanisms(library, slot);
  const found = { library, slot };
  return { ...found, handle: given === undefined ? login(found, place) : loginAsPerson(found, place, given) };
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
