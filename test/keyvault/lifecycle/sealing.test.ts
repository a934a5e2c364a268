import { pino } from "pino";
import { expect, test } from "vitest";
import type { Journal } from "../../../keyvault/audit/journal.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { LedgerHeld } from "../../../keyvault/audit/writer_connection.ts";
import { createSealing, type SealingParts } from "../../../keyvault/lifecycle/sealing.ts";
import type { SealReason } from "../../../keyvault/token/client.ts";
import { StaleOffer, WrongPin } from "../../../keyvault/token/messages.ts";
import { ADMIN, SILENT, testClock } from "../fixture.ts";

const OFFER = Buffer.alloc(32, 1);
const PIN = { offer: OFFER.toString("base64"), box: "" };
const OTHER = { ...ADMIN, name: "other" };

/** Returns the sealing of a sealed token. An unsealing waits until the test calls `letGo`. */
function heldUp(recorded: () => Promise<unknown> = async () => {}, other: Partial<SealingParts> = {}) {
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
      return { manufacturer: "", model: "", serial: "", keks: [] };
    },
  };
  const sealing = createSealing({
    token,
    open: async () => journal,
    journal: () => journal,
    clock: testClock(),
    elapsed: () => 0,
    log: SILENT,
    ...other,
  });
  return { sealing, token, letGo, records };
}

test("a seal request during an unsealing takes precedence, and both are recorded later", async () => {
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

test("a second concurrent unsealing is refused until the first one has finished", async () => {
  const { sealing, letGo } = heldUp();
  const opening = sealing.unseal(ADMIN, PIN);
  expect(await sealing.unseal(OTHER, PIN)).toMatchObject({ refused: "rate_limited", retryAfterSeconds: 1 });
  letGo();
  expect(await opening).toEqual({ sealed: false });
});

test("a seal request takes precedence while an unsealing is being recorded", async () => {
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

test("only the last hundred attempts on a sealed vault are kept and recorded", async () => {
  const { sealing, token, letGo, records } = heldUp();
  const { unseal } = token;
  token.unseal = () => Promise.reject(new WrongPin("no"));
  for (let count = 0; count < 150; count += 1) {
    expect(await sealing.unseal({ ...ADMIN, name: `admin-${count}` }, PIN)).toMatchObject({
      refused: "wrong_pin",
    });
  }
  token.unseal = unseal;
  letGo();
  expect(await sealing.unseal(OTHER, PIN)).toEqual({ sealed: false });
  expect(records.map(({ caller }) => caller.name)).toEqual([
    ...Array.from({ length: 100 }, (_, index) => `admin-${index + 50}`),
    OTHER.name,
  ]);
});

test("wrong PINs delay their caller by up to a minute, and a correct PIN resets the delay", async () => {
  let now = 0;
  const { sealing, token, letGo } = heldUp(undefined, { elapsed: () => now });
  const { unseal } = token;
  const fail = () => Promise.reject(new WrongPin("no"));
  token.unseal = fail;
  const waits: unknown[] = [];
  for (let count = 0; count < 9; count += 1) {
    expect(await sealing.unseal(ADMIN, PIN)).toMatchObject({ refused: "wrong_pin" });
    const { retryAfterSeconds = 0 } = (await sealing.unseal(ADMIN, PIN)) as { retryAfterSeconds?: number };
    waits.push(retryAfterSeconds);
    now += 1_000 * retryAfterSeconds;
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  token.unseal = unseal;
  letGo();
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  token.seal("no_pin_file");
  token.unseal = fail;
  await sealing.unseal(ADMIN, PIN);
  expect(await sealing.unseal(ADMIN, PIN)).toMatchObject({ retryAfterSeconds: 1 });
});

test("a caller with a wrong PIN must wait even if many other callers fail in between", async () => {
  const { sealing, token } = heldUp();
  token.unseal = () => Promise.reject(new WrongPin("no"));
  for (let count = 0; count < 100; count += 1) await sealing.unseal({ ...ADMIN, name: `a-${count}` }, PIN);
  expect(await sealing.unseal({ ...ADMIN, name: "a-0" }, PIN)).toMatchObject({ refused: "rate_limited" });
});

test("an encrypted PIN that the token's process cannot open counts as an attempt, but a PIN for an earlier process does not", async () => {
  const { sealing, token } = heldUp();
  const stale = { refused: "stale_offer" };
  expect(await sealing.unseal(ADMIN, { ...PIN, offer: "" })).toMatchObject(stale);
  token.unseal = () => Promise.reject(new StaleOffer());
  expect(await sealing.unseal(ADMIN, PIN)).toMatchObject(stale);
  expect(await sealing.unseal(ADMIN, PIN)).toMatchObject({ refused: "rate_limited" });
});

test("sealing a sealed vault keeps its time, reason and admin", async () => {
  const clock = testClock();
  const { sealing } = heldUp(undefined, { clock });
  const before = sealing.state();
  clock.move(60);
  expect(await sealing.seal(OTHER)).toEqual(before);
  expect(sealing.state()).toMatchObject({ reason: "no_pin_file", by: null });
});

test("a vault stays sealed if its token process exits during the unsealing", async () => {
  const { sealing, token, letGo } = heldUp(async () => token.seal("process_ended"));
  letGo();
  await expect(sealing.unseal(ADMIN, PIN)).rejects.toMatchObject({ code: "token_unavailable" });
  expect(sealing.state()).toBeDefined();
});

test("events while the vault is sealed are recorded once and in order, even if the first unsealing fails", async () => {
  let failing = 1;
  const { sealing, token, letGo, records } = heldUp(async () => {
    if (failing-- > 0) throw new Error("no database");
  });
  const { unseal } = token;
  token.unseal = () => Promise.reject(new WrongPin("no"));
  for (const name of ["a", "b"]) await sealing.unseal({ ...ADMIN, name }, PIN);
  token.unseal = unseal;
  letGo();
  const since = sealing.state()?.since;
  await expect(sealing.unseal(OTHER, PIN)).rejects.toThrow("no database");
  expect(await sealing.unseal(OTHER, PIN)).toEqual({ sealed: false });
  expect(records.map(({ caller, outcome }) => `${caller.name} ${outcome}`)).toEqual([
    "a wrong_pin",
    "b wrong_pin",
    "other granted",
  ]);
  expect(records.at(-1)?.detail).toEqual({ sealed_since: since, reason: "no_pin_file" });
});

test("the log names the admin who seals, the caller who enters a PIN, and the reason why a vault does not open", async () => {
  const lines: object[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  const journal = { change: () => Promise.reject(new Error("no database")) } as unknown as Journal;
  let opened: () => Promise<Journal> = async () => ({ record: async () => true }) as unknown as Journal;
  const { sealing, token, letGo } = heldUp(undefined, { log, journal: () => journal, open: () => opened() });
  letGo();
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  expect(await sealing.seal(OTHER)).toMatchObject({ by: "admin/other" });
  const { unseal } = token;
  token.unseal = () => Promise.reject(new WrongPin("no"));
  await sealing.unseal(ADMIN, PIN);
  token.unseal = unseal;
  opened = () => Promise.reject(new LedgerHeld());
  await expect(sealing.unseal(OTHER, PIN)).rejects.toMatchObject({ code: "unavailable" });
  expect(lines).toMatchObject([
    { event: "seal_not_recorded", err: { message: "no database" } },
    { event: "sealed_by", caller: "other", role: "admin" },
    { event: "unseal_refused", caller: "admin", role: "admin", code: "wrong_pin" },
    { event: "vault_not_opened", reason: expect.stringContaining("Another vault process") },
  ]);
});

test("sealing works while the journal hangs, and is recorded later", async () => {
  const journal = { change: () => new Promise(() => {}) } as unknown as Journal;
  const { sealing, token, letGo, records } = heldUp(undefined, { journal: () => journal });
  letGo();
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  expect(await sealing.seal(OTHER)).toMatchObject({ reason: "asked", by: "admin/other" });
  expect(token.sealed()).toBe("asked");
  expect(await sealing.unseal(ADMIN, PIN)).toEqual({ sealed: false });
  expect(records.map(({ caller, statement }) => `${caller.name} ${statement}`)).toEqual([
    "admin unseal",
    "other seal",
    "admin unseal",
  ]);
});
