import pkcs11 from "pkcs11js";
import { expect, test } from "vitest";
import { findSlot } from "../../../../keyvault/token/child/session.ts";

/** A module with tokens of these labels; one without a label was never initialised. */
const moduleOf = (...labels: (string | undefined)[]) =>
  ({
    C_GetSlotList: () => labels.map((_, slot) => Buffer.from([slot])),
    C_GetTokenInfo: ([slot = 0]: Buffer) => ({
      label: (labels[slot] ?? "deputize").padEnd(32),
      flags: labels[slot] === undefined ? 0 : pkcs11.CKF_TOKEN_INITIALIZED,
    }),
  }) as unknown as pkcs11.PKCS11;

test("the token is the one with exactly the label, and one that was never initialised is none", () => {
  expect(findSlot(moduleOf("other", undefined, "deputize", "deputize 2"), "deputize")).toEqual(
    Buffer.from([2]),
  );
  expect(findSlot(moduleOf("other", undefined), "deputize")).toBeUndefined();
});

test("of two tokens with the label none is taken: nobody puts another one in the place of the vault's", () => {
  expect(() => findSlot(moduleOf("deputize", "deputize"), "deputize")).toThrow(
    /2 tokens are labelled deputize/,
  );
});
