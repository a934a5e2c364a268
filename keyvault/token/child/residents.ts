import pkcs11 from "pkcs11js";
import type { Half } from "../messages.ts";
import { DamagedBox, TokenError } from "../token_error.ts";
import { describe, GUARDED, type Session } from "./session.ts";

/** How PKCS#11 knows a half. Numbers that the binding does not name are those of PKCS#11 3.2. */
type HalfFacts = {
  generation: number;
  mechanism: number;
  keyType: number;
  parameters: pkcs11.Template;
  publicAttribute: number;
  publicBytes: number;
  signatureBytes: number;
};

const CKA_PARAMETER_SET = 0x61d;
const CKP_ML_DSA_65 = 2;
/** The object identifier 1.3.101.112 in DER. */
const ED25519_OID = Buffer.from("06032b6570", "hex");
/** A DER OCTET STRING of 32 bytes, in which some modules wrap an Ed25519 point and others do not. */
const POINT_HEADER = Buffer.from("0420", "hex");

const HALVES = {
  ed25519: {
    generation: 0x1055,
    mechanism: 0x1057,
    keyType: 0x40,
    parameters: [{ type: pkcs11.CKA_EC_PARAMS, value: ED25519_OID }],
    publicAttribute: pkcs11.CKA_EC_POINT,
    publicBytes: 32,
    signatureBytes: 64,
  },
  ml_dsa_65: {
    generation: 0x1c,
    mechanism: 0x1d,
    keyType: 0x4a,
    parameters: [{ type: CKA_PARAMETER_SET, value: CKP_ML_DSA_65 }],
    publicAttribute: pkcs11.CKA_VALUE,
    publicBytes: 1952,
    signatureBytes: 3309,
  },
} as const satisfies Record<Half, HalfFacts>;

const NAMES = ["ed25519", "ml_dsa_65"] as const satisfies readonly Half[];
/** Only objects with such labels are looked at, signed with or destroyed. */
const LABEL = /^key-[0-9a-f]{32}$/;

/** Private halves that live in the token and never leave it. */
export type Residents = {
  /** Halves that this token can make and sign with; found by its mechanisms. */
  offered: readonly Half[];
  /** Generates halves under a label, which must be a resident's and new, and gives their public keys. */
  create(label: string, halves: readonly Half[]): Partial<Record<Half, Uint8Array>>;
  /** One half's signature. Throws `DamagedBox` when the token has no such half under the label. */
  sign(label: string, half: Half, bytes: Uint8Array): Uint8Array;
  /**
   * Permanently destroys every object with a resident's label; returns how many there were. No resident has
   * any other label.
   */
  destroy(label: string): number;
  /** The labels of all of them. */
  list(): string[];
};

/** The residents of an opened token. Handles are looked up once: searching slows down as a token fills. */
export function createResidents(session: Session): Residents {
  const { library, handle, slot } = session;
  const mechanisms = new Set(library.C_GetMechanismList(slot));
  const offered = NAMES.filter(
    (half) => mechanisms.has(HALVES[half].generation) && mechanisms.has(HALVES[half].mechanism),
  );
  const found = new Map<string, pkcs11.Handle>();

  function find(template: pkcs11.Template): pkcs11.Handle[] {
    library.C_FindObjectsInit(handle, [
      { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_PRIVATE_KEY },
      ...GUARDED,
      ...template,
    ]);
    const objects: pkcs11.Handle[] = [];
    for (let object = library.C_FindObjects(handle); object; object = library.C_FindObjects(handle)) {
      objects.push(object);
    }
    library.C_FindObjectsFinal(handle);
    return objects;
  }

  function handleOf(label: string, half: Half): pkcs11.Handle {
    const name = `${half} ${label}`;
    const known = found.get(name);
    if (known !== undefined) return known;
    if (!LABEL.test(label)) throw new DamagedBox();
    const [object, second] = find([
      { type: pkcs11.CKA_LABEL, value: label },
      { type: pkcs11.CKA_KEY_TYPE, value: HALVES[half].keyType },
    ]);
    if (object === undefined) throw new DamagedBox();
    if (second !== undefined) throw new TokenError(`The token has two keys labelled ${label}`);
    found.set(name, object);
    return object;
  }

  function generate(label: string, half: Half): Uint8Array {
    const { generation, keyType, parameters, publicAttribute, publicBytes } = HALVES[half];
    const made = library.C_GenerateKeyPair(
      handle,
      { mechanism: generation },
      [
        { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_PUBLIC_KEY },
        { type: pkcs11.CKA_KEY_TYPE, value: keyType },
        { type: pkcs11.CKA_TOKEN, value: false },
        { type: pkcs11.CKA_VERIFY, value: true },
        ...parameters,
      ],
      [
        { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_PRIVATE_KEY },
        { type: pkcs11.CKA_KEY_TYPE, value: keyType },
        { type: pkcs11.CKA_LABEL, value: label },
        { type: pkcs11.CKA_ID, value: Buffer.from(label) },
        ...GUARDED,
        { type: pkcs11.CKA_SIGN, value: true },
      ],
    );
    const [value] = library.C_GetAttributeValue(handle, made.publicKey, [{ type: publicAttribute }]);
    library.C_DestroyObject(handle, made.publicKey);
    return publicKeyOf(Buffer.from(value?.value as Buffer), publicBytes);
  }

  return {
    offered,

    create(label, halves) {
      if (!LABEL.test(label)) throw new TokenError("This is not the label of a resident key");
      if (find([{ type: pkcs11.CKA_LABEL, value: label }]).length > 0) {
        throw new TokenError(`The token has a key labelled ${label} already`);
      }
      return Object.fromEntries(halves.map((half) => [half, generate(label, half)]));
    },

    sign(label, half, bytes) {
      const { mechanism, signatureBytes } = HALVES[half];
      const key = handleOf(label, half);
      try {
        library.C_SignInit(handle, { mechanism }, key);
        return Buffer.from(library.C_Sign(handle, Buffer.from(bytes), Buffer.alloc(signatureBytes)));
      } catch (error) {
        throw new TokenError(`The token does not sign with ${label}: ${describe(error)}`);
      }
    },

    destroy(label) {
      if (!LABEL.test(label)) return 0;
      const objects = find([{ type: pkcs11.CKA_LABEL, value: label }]);
      for (const half of NAMES) found.delete(`${half} ${label}`);
      for (const object of objects) library.C_DestroyObject(handle, object);
      return objects.length;
    },

    list() {
      const labels = find([]).map((object) => {
        const [label] = library.C_GetAttributeValue(handle, object, [{ type: pkcs11.CKA_LABEL }]);
        return String(label?.value ?? "");
      });
      return [...new Set(labels)].filter((label) => LABEL.test(label));
    },
  };
}

/** A public key as it is signed for: raw, without the OCTET STRING that some modules put around a point. */
export function publicKeyOf(value: Buffer, bytes: number): Uint8Array {
  if (value.length === bytes) return value;
  const wrapped = value.length === bytes + POINT_HEADER.length && value.subarray(0, 2).equals(POINT_HEADER);
  if (bytes === 32 && wrapped) return value.subarray(POINT_HEADER.length);
  throw new TokenError(`The token gave a public key of ${value.length} bytes; ${bytes} were expected`);
}
