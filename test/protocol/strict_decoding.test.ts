import { beforeAll, describe, expect, test } from "vitest";
import { decodeDelegationCert } from "../../src/protocol/documents/certificate.ts";
import { decodeProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { decodeKeyRotation } from "../../src/protocol/statements/key_rotation.ts";
import { decodeRevocationList } from "../../src/protocol/statements/revocation_list.ts";
import { decodeVerificationReceipt } from "../../src/protocol/statements/verification_receipt.ts";
import { decodeRevocationPush } from "../conformance/extensions/revocation_push.ts";
import { decodeSessionToken } from "../conformance/extensions/session_token.ts";
import { decodeStreamedTurn } from "../conformance/extensions/streamed_turn.ts";
import { decodeTransactionReceipt } from "../conformance/extensions/transaction_receipt.ts";
import { decodeWitnessEntry } from "../conformance/extensions/witness_entry.ts";
import { type Genuine, genuineDocuments } from "../fuzz/seeds.ts";
import { encode } from "../support/chains.ts";

const DECODERS: Record<keyof Genuine, (bytes: Uint8Array) => object> = {
  bundle: decodeProofBundle,
  certificate: decodeDelegationCert,
  revocationList: decodeRevocationList,
  revocationPush: decodeRevocationPush,
  keyRotation: decodeKeyRotation,
  witnessEntry: decodeWitnessEntry,
  sessionToken: decodeSessionToken,
  streamedTurn: decodeStreamedTurn,
  transactionReceipt: decodeTransactionReceipt,
  verificationReceipt: decodeVerificationReceipt,
};
const OPTIONAL: Partial<Record<keyof Genuine, string[]>> = {
  bundle: ["session_context", "stream_id", "stream_seq"],
  streamedTurn: ["session_context", "stream_id", "stream_seq"],
  verificationReceipt: ["agent_id", "human_id", "error_reason", "granted_scope"],
};
const KINDS = Object.keys(DECODERS) as (keyof Genuine)[];
const refuses = (code: string) => expect.objectContaining({ code });

let genuine: Genuine;

beforeAll(async () => {
  genuine = await genuineDocuments();
});

describe.each(KINDS)("%s", (kind) => {
  const decode = (document: Uint8Array) => DECODERS[kind](document);
  const textOf = () => Buffer.from(genuine[kind][0] ?? Buffer.alloc(0)).toString("utf8");
  const parsed = (): Record<string, unknown> => JSON.parse(textOf());

  test("has the content of its document after decoding", () => {
    for (const document of genuine[kind]) {
      expect(decode(document)).toEqual(JSON.parse(Buffer.from(document).toString("utf8")));
    }
  });

  test("requires all members that are not optional, and rejects null", () => {
    const required = Object.keys(parsed()).filter((name) => !OPTIONAL[kind]?.includes(name));
    expect(required.length).toBeGreaterThanOrEqual(3);
    for (const name of required) {
      const { [name]: _, ...others } = parsed();
      expect(() => decode(encode(others)), name).toThrow(refuses("missing_field"));
      expect(() => decode(encode({ ...others, [name]: null })), name).toThrow(refuses("missing_field"));
    }
  });

  test("rejects a member of the wrong type", () => {
    for (const name of Object.keys(parsed())) {
      for (const value of [true, { a: 1 }, [[]]]) {
        expect(() => decode(encode({ ...parsed(), [name]: value })), name).toThrow(
          expect.objectContaining({ name: "ProtocolError" }),
        );
      }
    }
  });

  test.each([
    ["an unknown member", (text: string) => text.replace("{", '{"extra":1,'), "unknown_field"],
    ["a member named __proto__", (text: string) => text.replace("{", '{"__proto__":{},'), "unknown_field"],
    ["a duplicate member", (text: string) => text.replace(/^\{("\w+":)/, '{$1"x",$1'), "duplicate_key"],
    ["a byte-order mark", (text: string) => `\ufeff${text}`, "invalid_json"],
    ["trailing content", (text: string) => `${text}0`, "invalid_json"],
    ["no content", () => "", "invalid_json"],
    [
      "17 levels of nesting",
      (text: string) => text.replace("{", `{"extra":${"[".repeat(16)}${"]".repeat(16)},`),
      "too_deep",
    ],
    [
      "16 levels of nesting",
      (text: string) => text.replace("{", `{"extra":${"[".repeat(15)}${"]".repeat(15)},`),
      "unknown_field",
    ],
    ["131073 bytes", (text: string) => text.padEnd(131_073), "too_large"],
    ["a lone surrogate", (text: string) => text.replace("{", '{"extra":"\\udfff",'), "invalid_utf8"],
  ])("rejects a document with %s", (_, change, code) => {
    expect(() => decode(Buffer.from(change(textOf())))).toThrow(refuses(code));
  });

  test("accepts 131072 bytes, members in any order and any white space", () => {
    const members = parsed();
    const reversed = Object.fromEntries(Object.entries(members).reverse());
    const spaced = Buffer.from(JSON.stringify(reversed, null, "\r\n\t"));
    const largest = Buffer.concat([spaced, Buffer.alloc(131_072 - spaced.length, " ")]);
    expect(decode(largest)).toEqual(members);
  });

  test("rejects a document that contains one byte that is not UTF-8", () => {
    const document = Buffer.from(textOf());
    document[document.length - 2] = 0xff;
    expect(() => decode(document)).toThrow(refuses("invalid_utf8"));
  });
});
