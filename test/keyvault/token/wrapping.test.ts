import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";
import type pkcs11 from "pkcs11js";
import { beforeEach, expect, test } from "vitest";
import { createOperations, type TokenOperations } from "../../../keyvault/token/child/operations.ts";
import type { Session } from "../../../keyvault/token/child/session.ts";
import { DamagedBox, TokenError } from "../../../keyvault/token/messages.ts";

/* The module is a fake, whose buffers the test can inspect. The handles are the keys themselves. */

const [OLD, NEW, AUDIT] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2), Buffer.alloc(32, 3)];
const CONTEXT = Buffer.from("tenant acc-1");
const SECRET = Buffer.alloc(32, 7);

/** Plaintexts that the module has decrypted. */
let opened: Buffer[];
let isBroken: boolean;
let operations: TokenOperations;
let keks: Map<string, Buffer>;

beforeEach(() => {
  opened = [];
  isBroken = false;
  keks = new Map([
    ["kek-1", OLD],
    ["kek-2", NEW],
  ]);
  let begun: { key: Buffer; nonce: Buffer; aad: Buffer } | undefined;
  const begin = (_: unknown, { parameter }: { parameter: { iv: Buffer; aad: Buffer } }, key: Buffer) => {
    begun = { key, nonce: parameter.iv, aad: parameter.aad };
  };
  const library = {
    C_EncryptInit: begin,
    C_DecryptInit: begin,
    C_Encrypt(_: unknown, text: Buffer) {
      const cipher = createCipheriv("aes-256-gcm", begun!.key, begun!.nonce).setAAD(begun!.aad);
      return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
    },
    C_Decrypt(_: unknown, ciphertext: Buffer) {
      if (isBroken) throw new Error("CKR_DEVICE_ERROR");
      const decipher = createDecipheriv("aes-256-gcm", begun!.key, begun!.nonce).setAAD(begun!.aad);
      decipher.setAuthTag(ciphertext.subarray(-16));
      const text = Buffer.concat([decipher.update(ciphertext.subarray(0, -16)), decipher.final()]);
      opened.push(text);
      return text;
    },
    C_SignInit: () => {},
    C_Sign: (_: unknown, text: Buffer) => createHmac("sha256", AUDIT).update(text).digest(),
    C_GenerateKey: () => Buffer.alloc(32, 9),
    C_DestroyObject: () => {},
  };
  const session = { library, slot: Buffer.alloc(1), handle: Buffer.alloc(1) } as unknown as Session;
  operations = createOperations(session, { keks: keks as Map<string, pkcs11.Handle>, audit: AUDIT });
});

/** Wraps the secret as it was wrapped before the newer version existed. */
function wrappedBefore(context = CONTEXT) {
  const newest = keks.get("kek-2")!;
  keks.delete("kek-2");
  const wrapped = operations.wrap(SECRET, context);
  keks.set("kek-2", newest);
  return wrapped;
}

test("rewrap wraps under the newest version and leaves no plaintext in memory", () => {
  const wrapped = wrappedBefore();
  const [renewed] = operations.rewrap([{ wrapped, context: CONTEXT }]);
  expect(renewed?.kek).toBe("kek-2");
  expect(opened).toEqual([Buffer.alloc(SECRET.length)]);
  expect(operations.unwrap(renewed!, CONTEXT)).toEqual(SECRET);
});

test("findVersions leaves no plaintext in memory", () => {
  const wrapped = wrappedBefore();
  const boxes = [
    { wrapped, context: CONTEXT },
    { wrapped: { ...wrapped, kek: "kek-2" }, context: CONTEXT },
    { wrapped: { ...wrapped, kek: "kek-9" }, context: CONTEXT },
    { wrapped, context: Buffer.from("tenant acc-2") },
  ];
  expect(operations.findVersions(boxes)).toEqual(["kek-1", "kek-1", "kek-1", null]);
  for (const text of opened.filter(({ length }) => length === SECRET.length)) {
    expect(text).toEqual(Buffer.alloc(SECRET.length));
  }
  expect(opened.filter(({ length }) => length === SECRET.length)).toHaveLength(3);
});

test("a damaged box is reported as damaged only while the token works", () => {
  const wrapped = wrappedBefore();
  const other = Buffer.from("tenant acc-2");
  expect(() => operations.unwrap(wrapped, other)).toThrow(DamagedBox);
  expect(operations.rewrap([{ wrapped, context: other }])).toEqual([null]);
  isBroken = true;
  for (const use of [
    () => operations.unwrap(wrapped, CONTEXT),
    () => operations.rewrap([{ wrapped, context: CONTEXT }]),
    () => operations.findVersions([{ wrapped, context: CONTEXT }]),
  ]) {
    expect(use).toThrow("CKR_DEVICE_ERROR");
  }
  expect(() => operations.health()).toThrow("The token does not work: CKR_DEVICE_ERROR");
});

test("wrap accepts texts of 1 to 4,096 bytes", () => {
  for (const length of [1, 4_096]) {
    expect(operations.unwrap(operations.wrap(Buffer.alloc(length), CONTEXT), CONTEXT)).toHaveLength(length);
  }
  for (const length of [0, 4_097]) {
    expect(() => operations.wrap(Buffer.alloc(length), CONTEXT)).toThrow(TokenError);
  }
});

test("rotate tests a new version before that version wraps anything", () => {
  expect(operations.rotate()).toEqual(["kek-1", "kek-2", "kek-3"]);
  expect(operations.wrap(SECRET, CONTEXT).kek).toBe("kek-3");
  isBroken = true;
  expect(() => operations.rotate()).toThrow("CKR_DEVICE_ERROR");
});

test("chain accepts only a complete previous code", () => {
  for (const length of [0, 31, 33]) {
    expect(() => operations.chain(Buffer.alloc(length), [Buffer.from("text")])).toThrow(
      "The previous record's code has a wrong length",
    );
  }
  expect(operations.chain(Buffer.alloc(32), [])).toEqual([]);
});
