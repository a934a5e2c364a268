import pkcs11 from "pkcs11js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createHeadNote } from "../../../../keyvault/token/child/head_note.ts";
import type { Session } from "../../../../keyvault/token/child/session.ts";
import { openToken, type Token } from "../../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../../keyvault/token/install.ts";
import { createHome, SILENT, type VaultHome } from "../../fixture.ts";

let home: VaultHome;
let token: Token;

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
});
afterAll(async () => {
  await token.close();
  await home.remove();
});

const open = async () => openToken(await tokenSettings(home.config.token), SILENT);
const head = (seq: number, byte = 1) => ({ seq, mac: Buffer.alloc(32, byte) });
const noted = async (from = token) => {
  const { head: found } = await from.notedHead();
  return found && { seq: found.seq, mac: Buffer.from(found.mac) };
};

test("the newest head is noted and available to the next process that opens the token", async () => {
  for (let seq = 100; seq < 110; seq += 1) {
    await token.noteHead(head(seq, seq));
    expect(await noted()).toEqual(head(seq, seq));
  }
  await token.close();
  token = await open();
  expect(await noted()).toEqual(head(109, 109));
  expect((await token.health()).keks).toEqual(["kek-1"]);
});

test("a head with a lower number, or another head with the same number, does not replace the note", async () => {
  await token.noteHead(head(200));
  await token.noteHead(head(199));
  await token.noteHead(head(200, 2));
  expect(await noted()).toEqual(head(200));
});

test("a late note with a lower number does not replace another process's note", async () => {
  const other = await open();
  await token.noteHead(head(300));
  await other.noteHead(head(310));
  await token.noteHead(head(305));
  expect(await noted()).toEqual(head(310));
  expect(await noted(other)).toEqual(head(310));
  await other.close();
});

test("a note with `replaceAll` replaces all notes, even if its number is lower", async () => {
  await token.noteHead(head(400));
  await token.noteHead(head(401));
  await token.noteHead(head(7), true);
  expect(await noted()).toEqual(head(7));
  await token.noteHead(head(8));
  await token.noteHead(head(9));
  expect(await noted()).toEqual(head(9));
});

test("a process killed while it writes notes leaves a valid note, and the token keeps working", async () => {
  for (let round = 1; round <= 4; round += 1) {
    const from = 1_000 * round;
    let acknowledged = from;
    const noting = (async () => {
      for (let seq = from + 1; seq < from + 900; seq += 1) {
        await token.noteHead(head(seq));
        acknowledged = seq;
      }
    })().catch(() => {});
    await expect.poll(() => acknowledged, { interval: 1 }).toBeGreaterThan(from + 2 * round);
    process.kill(token.pid() ?? 0, "SIGKILL");
    await noting;
    await token.close();
    token = await open();
    expect((await noted())?.seq).toBeGreaterThanOrEqual(acknowledged);
  }
});

/**
 * Returns a fake module's objects, and the head noted after each step at which the process could be killed.
 */
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
  ["that can change labels", true],
  ["that cannot change labels", false],
])("an interrupted write of a note in a module %s leaves the previous note valid", (_, changesLabels) => {
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

test("an interrupted write of a note with `replaceAll` leaves either the previous or the new head", () => {
  const { note, steps, labels } = moduleThat({ changesLabels: true });
  note.write(head(8), false);
  note.write(head(9), false);
  steps.length = 0;
  note.write(head(3), true);
  for (const noted of steps) expect([3, 8, 9]).toContain(noted);
  expect(note.read()).toEqual(head(3));
  expect(labels.size).toBe(1);
});
