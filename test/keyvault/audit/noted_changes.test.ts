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

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
  journal = await openJournal({
    databaseUrl: home.config.databaseUrl,
    token: { ...token, noteHead: async (head) => noting().then(() => token.noteHead(head)) },
    clock: testClock(),
    log: SILENT,
    register: createRegister(),
    reopened: () => {},
  });
});
afterAll(async () => {
  await journal.close();
  await token.close();
  await home.remove();
});

const change = () =>
  journal.change(async () => ({
    value: "changed",
    entry: { caller: API, statement: "key_disable", outcome: "granted" },
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
