import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

/**
 * Seals small secrets that must be kept readable by this service (webhook secrets, undelivered credentials).
 */
export type Seal = {
  /** AES-256-GCM of `plain`, bound to `context`: version ‖ nonce ‖ ciphertext ‖ tag. */
  seal(plain: string, context: string): Buffer;
  /** The text sealed under the same context. Throws when the box was altered or belongs elsewhere. */
  open(sealed: Uint8Array, context: string): string;
};

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A seal under a 32-byte key. The context keeps a sealed value from being moved to another row or column. */
export function createSeal(key: Uint8Array): Seal {
  if (key.length !== 32) throw new Error("The key of the secret box must be 32 bytes");
  return {
    seal(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      return Buffer.concat([Buffer.of(VERSION), nonce, body, cipher.getAuthTag()]);
    },
    open(sealed, context) {
      const box = Buffer.from(sealed);
      if (box[0] !== VERSION || box.length < 1 + NONCE_BYTES + TAG_BYTES) {
        throw new Error("The boxed value is damaged");
      }
      const nonce = box.subarray(1, 1 + NONCE_BYTES);
      const tag = box.subarray(box.length - TAG_BYTES);
      const decipher = createDecipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
      decipher.setAuthTag(tag);
      const body = box.subarray(1 + NONCE_BYTES, box.length - TAG_BYTES);
      return decipher.update(body, undefined, "utf8") + decipher.final("utf8");
    },
  };
}
