import { afterAll, beforeAll, expect, test } from "vitest";
import { acceptHead } from "../../../keyvault/commands/check_chain.ts";
import { type Database, openDatabase } from "../../../keyvault/db/database.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { createHome, SILENT, testClock, type VaultHome } from "../fixture.ts";

let home: VaultHome;
let token: Token;
let database: Database;

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
  database = openDatabase(home.config.databaseUrl, SILENT, 1);
});
afterAll(async () => {
  await Promise.all([token.close(), database.destroy()]);
  await home.remove();
});

const { stringify } = JSON;
const end = async () => {
  const [last] = await home.sql<{ seq: number; mac: Buffer }>(
    "select seq::int, mac from audit order by seq desc limit 1",
  );
  return last!;
};
const accept = (seq: number, mac: Buffer) =>
  acceptHead(
    { databaseUrl: home.config.databaseUrl, database, token, clock: testClock(), log: SILENT },
    { seq, mac },
  );

async function refused(seq: number, mac: Buffer, why: RegExp): Promise<void> {
  const before = stringify([await token.notedHead(), await end()]);
  await expect(accept(seq, mac)).rejects.toThrow(why);
  expect(stringify([await token.notedHead(), await end()])).toBe(before);
}

test("acceptHead accepts only the number and the code of the chain's last record", async () => {
  const { seq, mac } = await end();
  await refused(seq, Buffer.alloc(32), /The chain ends with/);
  await refused(seq + 1, mac, /The chain ends with/);
});

test("acceptHead fails for a chain with an altered record", async () => {
  const { seq, mac } = await end();
  const say = (caller: string) =>
    home.sql(
      `alter table audit disable trigger audit_append_only; update audit set caller = '${caller}' where seq = 1;
       alter table audit enable trigger audit_append_only`,
    );
  const [first] = await home.sql<{ caller: string }>("select caller from audit where seq = 1");
  await say("nobody");
  await refused(seq, mac, /broken at record 1/);
  await say(first!.caller);
  expect((await accept(seq, mac)).seq).toBe(seq + 1);
});

test("acceptHead records both the head that the token had noted and the end that was accepted", async () => {
  const noted = (await token.notedHead()).head!;
  const { seq, mac } = await end();
  await accept(seq, mac);
  const [last] = await home.sql(
    "select caller, role, statement, outcome, detail from audit order by seq desc limit 1",
  );
  expect(last).toEqual({
    ...{ caller: "recovery", role: "local", statement: "head_accept", outcome: "granted" },
    detail: { noted: `${noted.seq}:${Buffer.from(noted.mac).toString("hex")}`, accepted: String(seq) },
  });
});
