import pkcs11 from "pkcs11js";
import type { NotedHead } from "../messages.ts";
import { findGuarded, GUARDED, type Session } from "./session.ts";

/** Identifier of the objects whose labels are the note. */
export const HEAD_NOTE_ID = Buffer.from("audit-head");

const SLOTS = 2;
const LABEL = /^(\d{1,15}):([0-9a-f]{64})$/;
/**
 * Digits that a number is written with, at least. SoftHSM does not bind an encrypted attribute to its object,
 * and a label is not a secret: of one with 7 digits the last two blocks would serve as an AES-192 key that
 * somebody knows. With 8 to 14 no end is as long as a key.
 */
const DIGITS = 8;

/**
 * The audit chain's head, noted in the token, where the database's owner cannot write. It is the label of one
 * of two keys that are used for nothing else, written in turns: what is cut off while it is written leaves
 * the other one. Modules change a label within 2 ms, where a new object takes SoftHSM 36 ms, and not every
 * module has data objects.
 */
export type HeadNote = {
  /** The highest head that was noted, or null. */
  read(): NotedHead | null;
  /** Notes a head, unless a higher one is noted. With `anew` it replaces any noted head. */
  write(head: NotedHead, anew: boolean): void;
};

type Slot = { object: pkcs11.Handle; head: NotedHead | undefined };

/** The note of an opened token. */
export function createHeadNote(session: Session): HeadNote {
  const { library, handle } = session;

  function slots(): Slot[] {
    return findGuarded(session, { type: pkcs11.CKA_ID, value: HEAD_NOTE_ID })
      .map((object) => ({ object, head: headOf(labelOf(session, object)) }))
      .sort((left, right) => seqOf(right) - seqOf(left));
  }

  function create(label: string): void {
    library.C_GenerateKey(handle, { mechanism: pkcs11.CKM_GENERIC_SECRET_KEY_GEN }, [
      { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY },
      { type: pkcs11.CKA_KEY_TYPE, value: pkcs11.CKK_GENERIC_SECRET },
      { type: pkcs11.CKA_LABEL, value: label },
      { type: pkcs11.CKA_ID, value: HEAD_NOTE_ID },
      ...GUARDED,
      { type: pkcs11.CKA_MODIFIABLE, value: true },
      { type: pkcs11.CKA_VALUE_LEN, value: 32 },
      { type: pkcs11.CKA_SIGN, value: true },
    ]);
  }

  /** Puts the label where `slot` was; a module that changes no labels gets a new object for it. */
  function replace({ object }: Slot, label: string): void {
    try {
      library.C_SetAttributeValue(handle, object, [{ type: pkcs11.CKA_LABEL, value: label }]);
    } catch {
      create(label);
      library.C_DestroyObject(handle, object);
    }
  }

  return {
    read: () => slots()[0]?.head ?? null,
    write(head, anew) {
      const present = slots();
      const newest = present[0]?.head;
      const label = `${String(head.seq).padStart(DIGITS, "0")}:${Buffer.from(head.mac).toString("hex")}`;
      if (anew) {
        create(label);
        for (const { object } of present) library.C_DestroyObject(handle, object);
        return;
      }
      if (newest !== undefined && newest.seq >= head.seq) return;
      const oldest = present[SLOTS - 1];
      if (oldest === undefined) {
        create(label);
      } else {
        replace(oldest, label);
      }
    },
  };
}

/** The label of an object, empty if it has none. */
export function labelOf({ library, handle }: Session, object: pkcs11.Handle): string {
  const value: unknown = library.C_GetAttributeValue(handle, object, [{ type: pkcs11.CKA_LABEL }])[0]?.value;
  return Buffer.isBuffer(value) ? value.toString("utf8") : String(value ?? "");
}

function headOf(label: string): NotedHead | undefined {
  const [, seq, mac] = LABEL.exec(label) ?? [];
  return seq === undefined || mac === undefined
    ? undefined
    : { seq: Number(seq), mac: Buffer.from(mac, "hex") };
}

function seqOf({ head }: Slot): number {
  return head?.seq ?? -1;
}
