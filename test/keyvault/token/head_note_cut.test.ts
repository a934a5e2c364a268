import pkcs11 from "pkcs11js";
import { expect, test } from "vitest";
import { createHeadNote } from "../../../keyvault/token/child/head_note.ts";
import type { Session } from "../../../keyvault/token/child/session.ts";
import type { NotedHead } from "../../../keyvault/token/messages.ts";

const head = (seq: number): NotedHead => ({ seq, mac: Buffer.alloc(32, seq) });

/** A module's objects, and what is noted in them after each step at which the vault's process could end. */
function moduleThat({ changesLabels }: { changesLabels: boolean }) {
  const labels = new Map<number, string>();
  const steps: (number | undefined)[] = [];
  let made = 0;
  let unread: number[] = [];
  const put = (object: number, label: string): void => {
    labels.set(object, label);
    steps.push(note.read()?.seq);
  };
  const library = {
    C_FindObjectsInit: () => {
      unread = [...labels.keys()];
    },
    C_FindObjects: () => unread.shift(),
    C_FindObjectsFinal() {},
    C_GetAttributeValue: (_: unknown, object: number) => [{ value: Buffer.from(labels.get(object) ?? "") }],
    C_SetAttributeValue(_: unknown, object: number, [attribute]: { value: string }[]) {
      if (!changesLabels) throw new Error("CKR_ATTRIBUTE_READ_ONLY");
      put(object, "cut off");
      put(object, attribute?.value ?? "");
    },
    C_GenerateKey(_: unknown, __: unknown, template: { type: number; value: string }[]) {
      put(++made, "");
      put(made, template.find(({ type }) => type === pkcs11.CKA_LABEL)?.value ?? "");
    },
    C_DestroyObject(_: unknown, object: number) {
      labels.delete(object);
      steps.push(note.read()?.seq);
    },
  };
  const note = createHeadNote({
    library,
    handle: Buffer.alloc(0),
    slot: Buffer.alloc(0),
  } as unknown as Session);
  return { note, steps, labels };
}

test.each([
  ["that changes labels", true],
  ["that changes none", false],
])("in a module %s, a note that is cut off anywhere leaves the one before it", (_, changesLabels) => {
  const { note, steps, labels } = moduleThat({ changesLabels });
  expect(note.read()).toBeNull();
  note.write(head(1), false);
  for (let seq = 2; seq < 12; seq += 1) {
    steps.length = 0;
    note.write(head(seq), false);
    expect(note.read()).toEqual(head(seq));
    for (const noted of steps) expect([seq - 1, seq]).toContain(noted);
    expect(labels.size).toBe(2);
  }
});

test("noted anew and cut off anywhere, there is a head: what was noted, or the new one", () => {
  const { note, steps, labels } = moduleThat({ changesLabels: true });
  note.write(head(8), false);
  note.write(head(9), false);
  steps.length = 0;
  note.write(head(3), true);
  for (const noted of steps) expect([3, 8, 9]).toContain(noted);
  expect(note.read()).toEqual(head(3));
  expect(labels.size).toBe(1);
});
