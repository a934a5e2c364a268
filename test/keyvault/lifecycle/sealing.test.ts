import { expect, test } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { createSealing } from "../../../keyvault/lifecycle/sealing.ts";
import type { SealReason } from "../../../keyvault/token/client.ts";
import { WrongPin } from "../../../keyvault/token/fault.ts";
import { ADMIN, SILENT, testClock } from "../fixture.ts";

const OFFER = Buffer.alloc(32, 1);
const PIN = { offer: OFFER.toString("base64"), box: "" };
const OTHER = { ...ADMIN, name: "other" };

/** Sealing of a sealed token whose opening is held up until it is let go. */
function heldUp(recorded: () => Promise<unknown> = async () => {}) {
  let sealed: SealReason | undefined = "no_pin_file";
  const listeners: ((reason: SealReason) => void)[] = [];
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const records: AuditEntry[] = [];
  const journal = {
    async record(entry: AuditEntry) {
      await recorded();
      return records.push(entry) > 0;
    },
  } as unknown as Journal;
  const token = {
    sealed: () => sealed,
    offer: () => OFFER,
    whenSealed: (listener: (reason: SealReason) => void) => void listeners.push(listener),
    seal(reason: SealReason) {
      if (sealed !== undefined) return;
      sealed = reason;
      for (const listener of listeners) listener(reason);
    },
    async unseal() {
      await gate;
      sealed = undefined;
      return { manufacturer: "", model: "", serial: "", keks: [], resident: [] };
    },
  };
  const sealing = createSealing({
    token,
    open: async () => journal,
    journal: () => journal,
    clock: testClock(),
    elapsed: () => 0,
    log: SILENT,
  });
  return { sealing, token, letGo, records };
}

test("who seals while another unseals wins: the vault stays sealed, by their name, and both are on record in the end", async () => {
  const { sealing, token, letGo, records } = heldUp();
  const opening = sealing.unseal(ADMIN, PIN);
  expect(await sealing.seal(OTHER)).toMatchObject({ reason: "asked", by: "admin/other" });
  letGo();
  await expect(opening).rejects.toMatchObject({ code: "sealed" });
  expect(token.sealed()).toBe("asked");
  expect(sealing.state()).toMatchObject({ reason: "asked", by: "admin/other" });
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  expect(sealing.state()).toBeUndefined();
  expect(records.map(({ caller, statement }) => `${caller.name} ${statement}`)).toEqual([
    "other seal",
    "admin unseal",
  ]);
});

test("one unsealing at a time: a second one is told to wait", async () => {
  const { sealing, letGo } = heldUp();
  const opening = sealing.unseal(ADMIN, PIN);
  expect(await sealing.unseal(OTHER, PIN)).toMatchObject({ refused: "rate_limited", retryAfterSeconds: 1 });
  letGo();
  expect(await opening).toEqual({ sealed: false });
});

test("who seals while the unsealing is being recorded wins as well", async () => {
  let atRecord: () => Promise<unknown> = async () => undefined;
  const { sealing, token, letGo, records } = heldUp(() => atRecord());
  letGo();
  atRecord = async () => {
    atRecord = async () => undefined;
    await sealing.seal(OTHER);
  };
  await expect(sealing.unseal(ADMIN, PIN)).rejects.toMatchObject({ code: "sealed" });
  expect(token.sealed()).toBe("asked");
  expect(sealing.state()).toMatchObject({ by: "admin/other" });
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  expect(records.map(({ caller, statement }) => `${caller.name} ${statement}`)).toEqual([
    "admin unseal",
    "other seal",
    "admin unseal",
  ]);
});

test("of tries without end while it is sealed the last hundred are on record, and no more are kept", async () => {
  const { sealing, token, letGo, records } = heldUp();
  const { unseal } = token;
  token.unseal = () => Promise.reject(new WrongPin("no"));
  for (let count = 0; count < 150; count += 1)
    expect(await sealing.unseal({ ...ADMIN, name: `admin-${count}` }, PIN)).toMatchObject({
      refused: "wrong_pin",
    });
  token.unseal = unseal;
  letGo();
  expect(await sealing.unseal(OTHER, PIN)).toEqual({ sealed: false });
  expect(records.map(({ caller }) => caller.name)).toEqual([
    ...Array.from({ length: 100 }, (_, index) => `admin-${index + 50}`),
    OTHER.name,
  ]);
});
