import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";

/** Encrypts small secrets that this service must read again: webhook secrets and undelivered credentials. */
export type SecretBox = {
  /** Returns AES-256-GCM of `plain`, bound to `context`: version ‖ nonce ‖ ciphertext ‖ tag. */
  box(plain: string, context: string): Buffer;
  /** Returns the text that was boxed with this context. Throws if the box or the context was changed. */
  unbox(boxed: Uint8Array, context: string): string;
  /**
   * Returns 128 bits of HMAC-SHA256 in hex, for comparing values that must not be readable. Equal texts with
   * the same context have equal results. Without the key, nobody can find the text by trying candidates.
   */
  mac(text: string, context: string): string;
};

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAC_DIGITS = 32;

/**
 * Returns a secret box with a 32-byte key. A boxed value that was moved to a row or column with a different
 * context cannot be read.
 */
export function createSecretBox(key: Uint8Array): SecretBox {
  if (key.length !== 32) throw new Error("The key of the secret box must be 32 bytes");
  let macKey: Uint8Array | undefined;
  return {
    mac(text, context) {
      macKey ??= new Uint8Array(hkdfSync("sha256", key, "", "deputize mac", 32));
      const subject = JSON.stringify([context, text]);
      return createHmac("sha256", macKey).update(subject).digest("hex").slice(0, MAC_DIGITS);
    },
    box(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      return Buffer.concat([Buffer.of(VERSION), nonce, body, cipher.getAuthTag()]);
    },
    unbox(boxed, context) {
      const bytes = Buffer.from(boxed);
      if (bytes[0] !== VERSION || bytes.length < 1 + NONCE_BYTES + TAG_BYTES) {
        throw new Error("The boxed value is damaged");
      }
      const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
      const tag = bytes.subarray(bytes.length - TAG_BYTES);
      const decipher = createDecipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
      decipher.setAuthTag(tag);
      const body = bytes.subarray(1 + NONCE_BYTES, bytes.length - TAG_BYTES);
      return decipher.update(body, undefined, "utf8") + decipher.final("utf8");
    },
  };
}
