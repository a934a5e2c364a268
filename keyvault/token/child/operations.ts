import { hash, randomBytes } from "node:crypto";
import pkcs11 from "pkcs11js";
import { reasonOf } from "../../errors.ts";
import { DamagedBox, TokenError, type Wrapped } from "../messages.ts";
import type { Session } from "./session.ts";
import { createNextKek, destroyKek, type TokenKeys } from "./token_keys.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAC_BYTES = 32;
const MAX_PLAIN_BYTES = 4096;
/** Takes the previous record's place in a state's code, which therefore never equals a record's code. */
const STATE_DOMAIN = hash("sha256", "deputize keyvault state", "buffer");
const PROBE = Buffer.from("deputize keyvault probe");

type Box = { wrapped: Wrapped; context: Uint8Array };

/**
 * Operations of an open token, as described in the parent's `Token`. All are synchronous and use one session,
 * because a PKCS#11 session allows only one operation at a time. They throw the module's errors or a
 * `TokenError`.
 */
export type TokenOperations = ReturnType<typeof createOperations>;

/** Returns the operations of an open token with its keys. */
export function createOperations(session: Session, keys: TokenKeys) {
  const { library, handle } = session;
  const newest = (): string => [...keys.keks.keys()].at(-1) ?? "";

  function mechanism(nonce: Buffer, context: Uint8Array): pkcs11.Mechanism {
    const parameter = {
      type: pkcs11.CK_PARAMS_GCM,
      iv: nonce,
      aad: Buffer.from(context),
      ivBits: NONCE_BYTES * 8,
      tagBits: TAG_BYTES * 8,
    };
    return { mechanism: pkcs11.CKM_AES_GCM, parameter };
  }

  function kek(label: string): pkcs11.Handle {
    const found = keys.keks.get(label);
    if (found === undefined) throw new TokenError(`The token has no ${label}`);
    return found;
  }

  function encrypt(label: string, plain: Uint8Array, context: Uint8Array): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    library.C_EncryptInit(handle, mechanism(nonce, context), kek(label));
    const text = Buffer.from(plain.buffer, plain.byteOffset, plain.length);
    const ciphertext = library.C_Encrypt(handle, text, Buffer.alloc(plain.length + TAG_BYTES));
    return Buffer.concat([nonce, ciphertext]);
  }

  function decrypt(label: string, box: Uint8Array, context: Uint8Array): Buffer {
    const nonce = Buffer.from(box.subarray(0, NONCE_BYTES));
    const ciphertext = Buffer.from(box.subarray(NONCE_BYTES));
    library.C_DecryptInit(handle, mechanism(nonce, context), kek(label));
    return library.C_Decrypt(handle, ciphertext, Buffer.alloc(ciphertext.length));
  }

  function probe(label: string): void {
    const opened = decrypt(label, encrypt(label, PROBE, PROBE), PROBE);
    if (!opened.equals(PROBE)) throw new TokenError("The token gives wrong answers");
  }

  function unwrap(wrapped: Wrapped, context: Uint8Array): Buffer {
    const label = wrapped.kek;
    if (wrapped.box.length <= NONCE_BYTES + TAG_BYTES || !keys.keks.has(label)) throw new DamagedBox();
    try {
      return decrypt(label, wrapped.box, context);
    } catch {
      // Some modules, such as SoftHSM, report a wrong authentication tag as a general error. A probe shows
      // whether the token still works.
      probe(label);
      throw new DamagedBox();
    }
  }

  function renew(wrapped: Wrapped, context: Uint8Array): Wrapped | null {
    try {
      const plain = unwrap(wrapped, context);
      const renewed = { kek: newest(), box: encrypt(newest(), plain, context) };
      plain.fill(0);
      return renewed;
    } catch (error) {
      if (error instanceof DamagedBox) return null;
      throw error;
    }
  }

  function opens(wrapped: Wrapped, context: Uint8Array): boolean {
    try {
      unwrap(wrapped, context).fill(0);
      return true;
    } catch (error) {
      if (error instanceof DamagedBox) return false;
      throw error;
    }
  }

  function hmac(previous: Uint8Array, text: Uint8Array): Buffer {
    library.C_SignInit(handle, { mechanism: pkcs11.CKM_SHA256_HMAC }, keys.audit);
    return Buffer.from(library.C_Sign(handle, Buffer.concat([previous, text]), Buffer.alloc(MAC_BYTES)));
  }

  return {
    wrap(plain: Uint8Array, context: Uint8Array): Wrapped {
      if (plain.length === 0 || plain.length > MAX_PLAIN_BYTES) {
        throw new TokenError("A text of this length cannot be wrapped");
      }
      return { kek: newest(), box: encrypt(newest(), plain, context) };
    },

    unwrap,

    rewrap: (boxes: readonly Box[]): (Wrapped | null)[] =>
      boxes.map(({ wrapped, context }) => renew(wrapped, context)),

    findVersions: (boxes: readonly Box[]): (string | null)[] =>
      boxes.map(({ wrapped, context }) => {
        const others = [...keys.keks.keys()].filter((label) => label !== wrapped.kek);
        const labels = keys.keks.has(wrapped.kek) ? [wrapped.kek, ...others] : others;
        return labels.find((label) => opens({ kek: label, box: wrapped.box }, context)) ?? null;
      }),

    rotate(): string[] {
      createNextKek(session, keys.keks);
      probe(newest());
      return [...keys.keks.keys()];
    },

    retire(label: string): string[] {
      destroyKek(session, keys.keks, label);
      return [...keys.keks.keys()];
    },

    chain(previous: Uint8Array, texts: readonly Uint8Array[]): Uint8Array[] {
      if (previous.length !== MAC_BYTES) {
        throw new TokenError("The previous record's code has a wrong length");
      }
      let last: Buffer = Buffer.from(previous);
      return texts.map((text) => {
        last = hmac(last, text);
        return last;
      });
    },

    authenticate: (texts: readonly Uint8Array[]): Uint8Array[] =>
      texts.map((text) => hmac(STATE_DOMAIN, text)),

    health(): void {
      try {
        probe(newest());
      } catch (error) {
        throw new TokenError(`The token does not work: ${reasonOf(error)}`);
      }
    },
  };
}
