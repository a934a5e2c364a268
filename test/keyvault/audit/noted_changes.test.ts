import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Journal, openJournal } from "../../../keyvault/audit/journal.ts";
import { createRegister } from "../../../keyvault/audit/register.ts";
import { VaultError } from "../../../keyvault/errors.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { API, createHome, SILENT, testClock, type VaultHome } from "../fixture.ts";

let home: VaultHome;
let token: Token;
let journal: Journal;
let noting: () => Promise<unknown> = async () => {};

const open = () =>
  openJournal({
    databaseUrl: home.config.databaseUrl,
    token: { ...token, noteHead: async (head) => noting().then(() => token.noteHead(head)) },
    clock: testClock(),
    log: SILENT,
    register: createRegister(),
    reopened: () => {},
  });

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

test("a change is not answered before the token has noted its record", async () => {
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

test("a change whose record the token does not note is not called done", async () => {
  noting = () => Promise.reject(new VaultError("token_unavailable"));
  await expect(change()).rejects.toMatchObject({ code: "token_unavailable" });
  noting = async () => {};
  expect(await change()).toBe("changed");
});

test("a change that the token does not note is durable: what was remembered from before is forgotten all the same", async () => {
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

test("the end of a chain that the token has not noted is noted when it is opened", async () => {
  await journal.record({ caller: API, statement: "call", outcome: "granted" });
  noting = () => Promise.reject(new VaultError("token_unavailable"));
  await journal.close();
  const before = (await token.notedHead()).head?.seq ?? 0;
  noting = async () => {};
  journal = await open();
  expect(journal.head().seq).toBeGreaterThan(before);
  expect((await token.notedHead()).head?.seq).toBe(journal.head().seq);
});

test("the stop waits for what was given before it", async () => {
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
