import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from "node:crypto";

const POINT_BYTES = 32;
const TAG_BYTES = 16;
/**
 * Plaintext: one byte for the length, the PIN, and zeros. So the box's size does not reveal the PIN's length.
 */
const PADDED_BYTES = 256;
const PURPOSE = "deputize keyvault unseal 1";
/** The nonce may be constant because each key encrypts one text. */
const NONCE = Buffer.alloc(12);

/** Maximum bytes of a PIN. */
export const MAX_PIN_BYTES = PADDED_BYTES - 1;

/** A child's one-time X25519 key, for one PIN. The private half never leaves the child. */
export type PinOffer = { publicKey: Buffer; privateKey: KeyObject };

/** Creates a fresh offer. */
export function createOffer(): PinOffer {
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  return { publicKey: pointOf(publicKey), privateKey };
}

/**
 * Encrypts a PIN to an offer: one-time X25519 key (32) ‖ AES-256-GCM of the padded PIN ‖ tag (16).
 * HKDF-SHA256 derives the AES key from the shared secret and both public keys. The caller must overwrite the
 * PIN. Throws `RangeError` if the PIN is empty or longer than {@link MAX_PIN_BYTES}, or if the offer is not a
 * key.
 */
export function encryptPin(pin: Uint8Array, offer: Uint8Array): Buffer {
  if (pin.length === 0 || pin.length > MAX_PIN_BYTES) {
    throw new RangeError(`A PIN has 1 to ${MAX_PIN_BYTES} bytes`);
  }
  if (offer.length !== POINT_BYTES) throw new RangeError("The token process offered no X25519 key");
  const once = generateKeyPairSync("x25519");
  const point = pointOf(once.publicKey);
  const key = deriveKey(once.privateKey, publicOf(offer), point, offer);
  const padded = Buffer.alloc(PADDED_BYTES);
  padded[0] = pin.length;
  padded.set(pin, 1);
  const cipher = createCipheriv("aes-256-gcm", key, NONCE).setAAD(offer);
  const box = Buffer.concat([point, cipher.update(padded), cipher.final(), cipher.getAuthTag()]);
  padded.fill(0);
  key.fill(0);
  return box;
}

/**
 * Decrypts a PIN of {@link encryptPin}. Returns `undefined` if the box was altered or is for another offer.
 */
export function decryptPin({ publicKey, privateKey }: PinOffer, box: Uint8Array): Buffer | undefined {
  if (box.length !== POINT_BYTES + PADDED_BYTES + TAG_BYTES) return undefined;
  const point = box.subarray(0, POINT_BYTES);
  let key: Buffer | undefined;
  try {
    key = deriveKey(privateKey, publicOf(point), point, publicKey);
    const decipher = createDecipheriv("aes-256-gcm", key, NONCE).setAAD(publicKey);
    decipher.setAuthTag(box.subarray(-TAG_BYTES));
    const padded = Buffer.concat([decipher.update(box.subarray(POINT_BYTES, -TAG_BYTES)), decipher.final()]);
    return padded.subarray(1, 1 + (padded[0] ?? 0));
  } catch {
    return undefined;
  } finally {
    key?.fill(0);
  }
}

function deriveKey(privateKey: KeyObject, publicKey: KeyObject, once: Uint8Array, offer: Uint8Array): Buffer {
  const secret = diffieHellman({ privateKey, publicKey });
  const key = Buffer.from(hkdfSync("sha256", secret, Buffer.concat([once, offer]), PURPOSE, 32));
  secret.fill(0);
  return key;
}

function pointOf(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");
}

function publicOf(point: Uint8Array): KeyObject {
  const x = Buffer.from(point).toString("base64url");
  return createPublicKey({ key: { kty: "OKP", crv: "X25519", x }, format: "jwk" });
}
