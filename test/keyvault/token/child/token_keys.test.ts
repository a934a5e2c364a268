import pkcs11 from "pkcs11js";
import { expect, test } from "vitest";
import { findSlot, GUARDED, type Session } from "../../../../keyvault/token/child/session.ts";
import { createNextKek, destroyKek, findKeys } from "../../../../keyvault/token/child/token_keys.ts";

type Templated = { type: number; value?: unknown }[];

/** The objects of the session have these labels. Their handles are their indexes. */
function sessionOf(...labels: string[]) {
  const asked = { looked: [] as Templated[], made: [] as Templated[], destroyed: [] as string[] };
  let left: Buffer[] = [];
  const library = {
    C_FindObjectsInit: (_: unknown, template: Templated) => {
      asked.looked.push(template);
      left = labels.map((_, index) => Buffer.from([index]));
    },
    C_FindObjects: () => left.shift() ?? null,
    C_FindObjectsFinal: () => {},
    C_GetAttributeValue: (_: unknown, [index = 0]: Buffer, [{ type } = { type: 0 }]: Templated) => [
      { type, value: type === pkcs11.CKA_LABEL ? Buffer.from(labels[index] ?? "") : Buffer.from("id") },
    ],
    C_GenerateKey: (_: unknown, __: unknown, template: Templated) => {
      asked.made.push(template);
      labels.push(String(template.find(({ type }) => type === pkcs11.CKA_LABEL)?.value));
      return Buffer.from([labels.length - 1]);
    },
    C_DestroyObject: (_: unknown, [index = 0]: Buffer) => void asked.destroyed.push(labels[index] ?? ""),
  };
  return {
    asked,
    session: { library, slot: Buffer.alloc(1), handle: Buffer.alloc(1) } as unknown as Session,
  };
}

test("findKeys rejects two keys with the same label, because it cannot know which key is the vault's", () => {
  expect(() => findKeys(sessionOf("kek-1", "audit-1", "audit-1").session)).toThrow(
    "The token has two keys labelled audit-1",
  );
  expect(() => findKeys(sessionOf("kek-1", "kek-2", "kek-1", "audit-1").session)).toThrow(
    "The token has two keys labelled kek-1",
  );
});

test("findKeys names a missing key and the command that creates it", () => {
  expect(() => findKeys(sessionOf("kek-1").session)).toThrow('The token has no audit-1: run "keyvault init"');
  expect(() => findKeys(sessionOf("audit-1", "kek-01", "kek-0", "kek-").session)).toThrow(
    'The token has no kek-1: run "keyvault init"',
  );
});

test("findKeys sorts key versions by number and ignores other objects", () => {
  const keys = findKeys(sessionOf("kek-10", "audit-1", "kek-9", "other", "kek-2").session);
  expect([...keys.keks.keys()]).toEqual(["kek-2", "kek-9", "kek-10"]);
});

test("createNextKek increments the newest version's number, even after gaps", () => {
  const { asked, session } = sessionOf("kek-2", "audit-1", "kek-9");
  const { keks } = findKeys(session);
  createNextKek(session, keks);
  expect([...keks.keys()]).toEqual(["kek-2", "kek-9", "kek-10"]);
  for (const attribute of GUARDED) expect(asked.made[0]).toContainEqual(attribute);
  expect(asked.looked[0]).toEqual(expect.arrayContaining([...GUARDED]));
});

test("destroyKek rejects the newest version and an unknown version", () => {
  const { asked, session } = sessionOf("kek-1", "audit-1", "kek-2");
  const { keks } = findKeys(session);
  for (const label of ["kek-2", "kek-3", "audit-1"]) {
    expect(() => destroyKek(session, keks, label), label).toThrow(`${label} is not an older version`);
  }
  destroyKek(session, keks, "kek-1");
  expect(asked.destroyed).toEqual(["kek-1"]);
  expect([...keks.keys()]).toEqual(["kek-2"]);
});

/** A token without a label is not initialized. */
const moduleOf = (...labels: (string | undefined)[]) =>
  ({
    C_GetSlotList: () => labels.map((_, slot) => Buffer.from([slot])),
    C_GetTokenInfo: ([slot = 0]: Buffer) => ({
      label: (labels[slot] ?? "deputize").padEnd(32),
      flags: labels[slot] === undefined ? 0 : pkcs11.CKF_TOKEN_INITIALIZED,
    }),
  }) as unknown as pkcs11.PKCS11;

test("findSlot returns the initialized token with exactly this label", () => {
  expect(findSlot(moduleOf("other", undefined, "deputize", "deputize 2"), "deputize")).toEqual(
    Buffer.from([2]),
  );
  expect(findSlot(moduleOf("other", undefined), "deputize")).toBeUndefined();
});

test("findSlot rejects two tokens with the same label, so that nobody can replace the vault's token", () => {
  expect(() => findSlot(moduleOf("deputize", "deputize"), "deputize")).toThrow(
    /2 tokens are labelled deputize/,
  );
});
