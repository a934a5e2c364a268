import { randomBytes } from "node:crypto";
import pkcs11 from "pkcs11js";
import { TokenError, type TokenPlace } from "../messages.ts";
import { HEAD_NOTE_ID, labelOf } from "./head_note.ts";
import { login, readPin } from "./login.ts";
import { findGuarded, findSlot, GUARDED, loadModule, requireMechanisms, type Session } from "./session.ts";

const AUDIT_KEY_LABEL = "audit-1";

/** Label of the first key-encryption key. The number increases with each version. */
const FIRST_KEK_LABEL = "kek-1";

const KEK_LABEL = /^kek-([1-9]\d{0,8})$/;

/** Handles of the vault's keys, looked up once, because a search by label slows down as a token fills. */
export type TokenKeys = {
  /** Key-encryption keys by label, oldest first. */
  keks: Map<string, pkcs11.Handle>;
  audit: pkcs11.Handle;
};

/** Finds the vault's keys. Throws a `TokenError` that names a missing or duplicate key. */
export function findKeys(session: Session): TokenKeys {
  const labels = secretKeys(session);
  const audit = labels.get(AUDIT_KEY_LABEL);
  const keks = [...labels]
    .filter(([label]) => KEK_LABEL.test(label))
    .sort(([left], [right]) => version(left) - version(right));
  if (audit === undefined) throw new TokenError(`The token has no ${AUDIT_KEY_LABEL}: run "keyvault init"`);
  if (keks.length === 0) throw new TokenError(`The token has no ${FIRST_KEK_LABEL}: run "keyvault init"`);
  return { keks: new Map(keks), audit };
}

/** Generates missing keys inside the token, which they never leave. Returns the labels of the new keys. */
function createMissingKeys(session: Session): string[] {
  const present = secretKeys(session);
  const missing = [FIRST_KEK_LABEL, AUDIT_KEY_LABEL].filter((label) => !present.has(label));
  for (const label of missing) {
    if (label === FIRST_KEK_LABEL) generateKek(session, label);
    else generateAuditKey(session, label);
  }
  return missing;
}

/** Generates the version after the newest of `keks` inside the token and adds it to `keks`. */
export function createNextKek(session: Session, keks: Map<string, pkcs11.Handle>): void {
  const newest = Math.max(...[...keks.keys()].map(version));
  const label = `kek-${newest + 1}`;
  keks.set(label, generateKek(session, label));
}

/**
 * Permanently destroys one version of `keks`. Throws a `TokenError` if the version is the newest or unknown.
 */
export function destroyKek(
  { library, handle }: Session,
  keks: Map<string, pkcs11.Handle>,
  label: string,
): void {
  const object = keks.get(label);
  if (object === undefined || label === [...keks.keys()].at(-1)) {
    throw new TokenError(`${label} is not an older version of the key-encryption key`);
  }
  library.C_DestroyObject(handle, object);
  keks.delete(label);
}

function secretKeys(session: Session): Map<string, pkcs11.Handle> {
  const { library, handle } = session;
  const labels = new Map<string, pkcs11.Handle>();
  for (const object of findGuarded(session)) {
    const [id] = library.C_GetAttributeValue(handle, object, [{ type: pkcs11.CKA_ID }]);
    if (Buffer.isBuffer(id?.value) && id.value.equals(HEAD_NOTE_ID)) continue;
    const label = labelOf(session, object);
    if (labels.has(label)) throw new TokenError(`The token has two keys labelled ${label}`);
    labels.set(label, object);
  }
  return labels;
}

function generateKek(session: Session, label: string): pkcs11.Handle {
  return generate(session, label, pkcs11.CKM_AES_KEY_GEN, [
    { type: pkcs11.CKA_KEY_TYPE, value: pkcs11.CKK_AES },
    { type: pkcs11.CKA_ENCRYPT, value: true },
    { type: pkcs11.CKA_DECRYPT, value: true },
  ]);
}

function generateAuditKey(session: Session, label: string): void {
  generate(session, label, pkcs11.CKM_GENERIC_SECRET_KEY_GEN, [
    { type: pkcs11.CKA_KEY_TYPE, value: pkcs11.CKK_GENERIC_SECRET },
    { type: pkcs11.CKA_SIGN, value: true },
  ]);
}

function generate(
  { library, handle }: Session,
  label: string,
  mechanism: number,
  uses: pkcs11.Template,
): pkcs11.Handle {
  return library.C_GenerateKey(handle, { mechanism }, [
    { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY },
    { type: pkcs11.CKA_LABEL, value: label },
    { type: pkcs11.CKA_ID, value: Buffer.from(label) },
    ...GUARDED,
    { type: pkcs11.CKA_VALUE_LEN, value: 32 },
    ...uses,
  ]);
}

function version(label: string): number {
  return Number(KEK_LABEL.exec(label)?.[1]);
}

const LABEL_BYTES = 32;

/**
 * Prepares the token. With `initialize`, turns the module's free slot into a token with this label and the
 * PIN in the file. Generates the first key-encryption key and the audit key inside the token unless they
 * exist. Returns the labels of the new keys. The security officer's PIN is random and not stored: it could
 * only reset the user's PIN, which the vault never needs.
 */
export function provision(place: TokenPlace, initialize: boolean): string[] {
  const library = loadModule(place);
  if (initialize && findSlot(library, place.label) === undefined) initializeToken(library, place);
  const slot = findSlot(library, place.label);
  if (slot === undefined) throw new TokenError(`The module has no token labelled ${place.label}`);
  requireMechanisms(library, slot);
  const handle = login({ library, slot }, place);
  const created = createMissingKeys({ library, slot, handle });
  library.C_Finalize();
  return created;
}

function initializeToken(library: pkcs11.PKCS11, place: TokenPlace): void {
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
