import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Journal, openJournal } from "../../../keyvault/audit/journal.ts";
import { createRegister, type Register } from "../../../keyvault/audit/last_states.ts";
import { VaultError } from "../../../keyvault/errors.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { API, createHome, SILENT, testClock, type VaultHome } from "../fixture.ts";

let home: VaultHome;
let token: Token;
let journal: Journal;
let register: Register;
let noting: () => Promise<unknown> = async () => {};

const open = () => {
  register = createRegister();
  return openJournal({
    databaseUrl: home.config.databaseUrl,
    token: { ...token, noteHead: async (head) => noting().then(() => token.noteHead(head)) },
    clock: testClock(),
    log: SILENT,
    register,
    reopened: () => {},
  });
};

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
  journal = await open();
});
afterAll(async () => {
  await journal.close();
  await token.close();
  await home.remove();
});

const change = (committed = () => {}) =>
  journal.change(async () => ({
    value: "changed",
    entry: { caller: API, statement: "key_disable", outcome: "granted" },
    committed,
  }));

test("the journal resolves a change only after the token has noted its record", async () => {
  const { promise, resolve: letGo } = Promise.withResolvers<void>();
  noting = () => promise;
  let answered = false;
  const changing = change().then(() => {
    answered = true;
  });
  await sleep(300);
  expect(answered).toBe(false);
  letGo();
  await changing;
  expect((await token.notedHead()).head?.seq).toBe(journal.head().seq);
});

test("the journal rejects a change if the token does not note its record", async () => {
  noting = () => Promise.reject(new VaultError("token_unavailable"));
  await expect(change()).rejects.toMatchObject({ code: "token_unavailable" });
  noting = async () => {};
  expect(await change()).toBe("changed");
});

test("the journal runs committed() for a change that the token does not note, because the change is durable", async () => {
  noting = () => Promise.reject(new VaultError("token_unavailable"));
  let forgotten = 0;
  await expect(
    change(() => {
      forgotten += 1;
    }),
  ).rejects.toMatchObject({ code: "token_unavailable" });
  noting = async () => {};
  expect(forgotten).toBe(1);
});

test("the journal makes the token note the chain's head when the journal opens", async () => {
  await journal.record({ caller: API, statement: "call", outcome: "granted" });
  noting = () => Promise.reject(new VaultError("token_unavailable"));
  await journal.close();
  const before = (await token.notedHead()).head?.seq ?? 0;
  noting = async () => {};
  journal = await open();
  expect(journal.head().seq).toBeGreaterThan(before);
  expect((await token.notedHead()).head?.seq).toBe(journal.head().seq);
});

test("the journal finishes earlier calls before close() resolves", async () => {
  const records = Array.from({ length: 20 }, () =>
    journal.record({ caller: API, statement: "call", outcome: "granted" }),
  );
  const last = change();
  await journal.close();
  expect(await Promise.all(records)).not.toContain(false);
  expect(await last).toBe("changed");
  expect((await token.notedHead()).head?.seq).toBe(journal.head().seq);
  journal = await open();
});

const KEY = "1".repeat(32);
const disabling = (digest: Buffer) =>
  ({ caller: API, statement: "key_disable", keyId: KEY, digest, outcome: "granted" }) as const;
const endWriters = () =>
  home.sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keyvault-audit' and datname = current_database()",
  );

test("the register does not accept a coded state if the connection was lost before the state's record was written", async () => {
  const digest = Buffer.alloc(32, 1);
  let place = 0;
  const failing = journal.change(async (client, seq) => {
    place = seq;
    await Promise.all([new Promise((resolve) => client.once("end", () => resolve(0))), endWriters()]);
    return { value: undefined, entry: disabling(digest) };
  });
  await expect(failing).rejects.toMatchObject({ code: "audit_unavailable" });
  expect(register.isLast("key", KEY, place, digest)).toBe(false);
  expect(await change()).toBe("changed");
});

test("the register does not accept a state if the database rejected the state's record", async () => {
  const digest = Buffer.alloc(32, 2);
  let place = 0;
  const failing = journal.change(async (client, seq) => {
    place = seq;
    await client.query("SAVEPOINT here");
    await client.query("set transaction read only");
    return { value: undefined, entry: disabling(digest) };
  });
  await expect(failing).rejects.toMatchObject({ code: "audit_unavailable" });
  expect(register.isLast("key", KEY, place, digest)).toBe(false);
  expect(await change()).toBe("changed");
});
