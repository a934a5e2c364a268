import pkcs11 from "pkcs11js";
import type { NotedHead } from "../messages.ts";
import { findGuarded, GUARDED, type Session } from "./session.ts";

/** CKA_ID of the objects whose labels contain the note. */
export const HEAD_NOTE_ID = Buffer.from("audit-head");

const SLOTS = 2;
const LABEL = /^(\d{1,15}):([0-9a-f]{64})$/;
/**
 * Minimum number of digits of a number in a label. SoftHSM does not bind an encrypted attribute to its
 * object, and a label is not secret. With 7 digits, an attacker could use the label's last two blocks as a
 * known AES-192 key. With 8 to 14 digits, no end of a label has the length of a key.
 */
const DIGITS = 8;

/**
 * The audit chain's head, noted in the token, where the database's owner cannot write. The note is a key's
 * label: not every module supports data objects, and modules change a label within 2 ms. Two keys serve only
 * this purpose and are written alternately, so an interrupted write leaves the other note valid.
 */
export type HeadNote = {
  read(): NotedHead | null;
  /** Notes a head, unless a head with a higher number is noted. With `replaceAll`, replaces every head. */
  write(head: NotedHead, replaceAll: boolean): void;
};

type Slot = { object: pkcs11.Handle; head: NotedHead | undefined };

/** Returns the head note of an open token. */
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

  /** If the module cannot change labels, creates a new object with the label and destroys the old one. */
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
    write(head, replaceAll) {
      const present = slots();
      const newest = present[0]?.head;
      const label = `${String(head.seq).padStart(DIGITS, "0")}:${Buffer.from(head.mac).toString("hex")}`;
      if (replaceAll) {
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

/** Returns the label of an object, or an empty string if it has none. */
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
