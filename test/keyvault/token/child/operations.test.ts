import type pkcs11 from "pkcs11js";
import { expect, test } from "vitest";
import { createOperations } from "../../../../keyvault/token/child/operations.ts";
import type { Session } from "../../../../keyvault/token/child/session.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A module that encrypts by putting a tag behind the text, and keeps what it gave when it decrypted. */
function moduleThatKeeps() {
  const opened: Buffer[] = [];
  const library = {
    C_EncryptInit() {},
    C_Encrypt: (_: unknown, text: Buffer) => Buffer.concat([text, Buffer.alloc(TAG_BYTES)]),
    C_DecryptInit() {},
    C_Decrypt(_: unknown, ciphertext: Buffer) {
      opened.push(Buffer.from(ciphertext.subarray(0, -TAG_BYTES)));
      return opened.at(-1)!;
    },
  } as unknown as pkcs11.PKCS11;
  const [handle, slot, kek] = [Buffer.alloc(8), Buffer.alloc(8), Buffer.alloc(8, 1)];
  const session: Session = { library, handle, slot };
  const operations = createOperations(session, { keks: new Map([["kek-1", kek]]), audit: kek });
  return { operations, opened };
}

test("data keys that are wrapped anew, or only tried, are overwritten: nothing of them stays in the token's process", () => {
  const { operations, opened } = moduleThatKeeps();
  const dataKeys = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
  const context = Buffer.from("tenant");
  const boxes = dataKeys.map((dataKey) => ({ wrapped: operations.wrap(dataKey, context), context }));
  const renewed = operations.rewrap(boxes);
  expect(renewed.map((wrapped) => Buffer.from(wrapped!.box).subarray(NONCE_BYTES, -TAG_BYTES))).toEqual(
    dataKeys,
  );
  expect(operations.findVersions(boxes)).toEqual(["kek-1", "kek-1"]);
  expect(opened).toEqual(Array(4).fill(Buffer.alloc(32)));
});
