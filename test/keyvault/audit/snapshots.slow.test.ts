import { hash } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openJournal } from "../../../keyvault/audit/journal.ts";
import { createRegister, type Register } from "../../../keyvault/audit/last_states.ts";
import { PARTS } from "../../../keyvault/audit/last_states_parts.ts";
import { createSnapshots, keepSnapshots } from "../../../keyvault/audit/snapshots.ts";
import { type Database, openDatabase } from "../../../keyvault/db/database.ts";
import { createKeyDisabling } from "../../../keyvault/keys/change.ts";
import { createKeyDestruction, createTenantDestruction } from "../../../keyvault/lifecycle/destroy.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";
import { API, createHome, SILENT, startVault, testClock, type VaultHome } from "../fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

let home: VaultHome;
let token: Token;
let database: Database;

/**
 * Writes records of every kind that the register uses, and `more` further ones, with a vault that then stops.
 */
async function write(more = 0): Promise<void> {
  const vault = await startVault(home);
  const parts = { ...vault.vault, clock: vault.clock, accepts: () => true };
  const make = (tenant: string, purpose: "account_root" | "agent") =>
    vault.makeKey({ tenant, purpose, label: "key", ceiling: ["data:read"] });
  const root = await make("acc-1", "account_root");
  const agents = await Promise.all([make("acc-1", "agent"), make("acc-2", "agent"), make("acc-3", "agent")]);
  const updated_at = Math.floor(vault.clock.now().getTime() / 1000);
  await createListSigning(parts)(API, root.key_id, {
    tenant: "acc-1",
    updated_at: updated_at + more,
    revoked_certs: [],
    expires_at: [],
  });
  await createKeyDisabling(parts)(API, { keyId: agents[0].key_id, tenant: "acc-1" });
  for (const name of ["alice", "bob"]) {
    await createKeyDestruction(parts)({ role: "admin", name, certificate: name }, agents[1].key_id, 7);
  }
  await createTenantDestruction(parts)({ role: "admin", name: "alice" }, "acc-3", 7);
  for (let count = 0; count < more; count += 1) await make(`acc-${count}`, "agent");
  await vault.stop();
}

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
  database = openDatabase(home.config.databaseUrl, SILENT, 2);
  await write();
});
afterAll(async () => {
  await Promise.all([token.close(), database.destroy()]);
  await home.remove();
});

type Start = { register: Register; verified: number; fromSnapshot: boolean };

/** Starts from the stored snapshot and runs `then` while the chain is open. */
async function start(then: (register: Register) => Promise<unknown> = async () => {}): Promise<Start> {
  const register = createRegister();
  let verified = 0;
  const counting: Token = {
    ...token,
    chain(previous, texts) {
      verified += texts.length;
      return token.chain(previous, texts);
    },
  };
  const taken = await createSnapshots({ database, token, register }).load();
  const journal = await openJournal({
    databaseUrl: home.config.databaseUrl,
    token: counting,
    clock: testClock(),
    log: SILENT,
    register,
    taken,
    reopened: () => {},
  });
  await then(register);
  await journal.close();
  return { register, verified, fromSnapshot: taken.length > 0 };
}

const save = () => start((register) => createSnapshots({ database, token, register }).save());
const contentsOf = (register: Register) => ({
  parts: Array.from({ length: PARTS }, (_, index) => register.part(index).content),
  rest: register.rest(),
  head: register.head(),
});
const erase = () => home.sql("delete from audit_register");
const alterAudit = (change: string) =>
  home.sql(
    `alter table audit disable trigger audit_append_only; ${change}; alter table audit enable trigger audit_append_only`,
  );

/** Opens the chain without the snapshot, so that every record is verified. Returns the resulting register. */
async function fromTheFirst(): Promise<Start> {
  await home.sql("create table aside as select * from audit_register");
  await erase();
  const started = await start();
  await home.sql("insert into audit_register select * from aside");
  await home.sql("drop table aside");
  return started;
}

test("startup from the snapshot gives the same register as from the first record, and verifies only newer records", async () => {
  const whole = await fromTheFirst();
  const { seq } = whole.register.head();
  expect(whole).toMatchObject({ verified: seq, fromSnapshot: false });
  await save();
  const started = await start();
  expect(started).toMatchObject({ verified: 1, fromSnapshot: true });
  expect(contentsOf(started.register)).toEqual(contentsOf(whole.register));
  await write(3);
  const later = await start();
  expect(later.verified).toBe(later.register.head().seq - seq + 1);
  expect(contentsOf(later.register)).toEqual(contentsOf((await fromTheFirst()).register));
});

test("a second save stores unchanged parts with the same content and new codes", async () => {
  await start(async (register) => {
    const snapshots = createSnapshots({ database, token, register });
    await snapshots.save();
    await snapshots.save();
  });
  const started = await start();
  expect(started).toMatchObject({ verified: 1, fromSnapshot: true });
  expect(contentsOf(started.register)).toEqual(contentsOf((await fromTheFirst()).register));
});

test("a second save stores parts that have changed", async () => {
  const vault = await startVault(home);
  const snapshots = createSnapshots(vault.vault);
  await snapshots.save();
  await vault.makeKey({ tenant: "acc-later", purpose: "account_root", label: "made in between" });
  await snapshots.save();
  await vault.stop();
  const started = await start();
  expect(started.fromSnapshot).toBe(true);
  expect(contentsOf(started.register)).toEqual(contentsOf((await fromTheFirst()).register));
});

test.each([
  ["the content of a part was altered", "update audit_register set content = content || ' ' where part = 7"],
  ["the number of a part was changed", "update audit_register set part = 300 where part = 7"],
  ["a part's place in the chain was changed", "update audit_register set seq = seq + 1 where part = 7"],
  ["the record of a part was changed", "update audit_register set head = mac where part = 7"],
  ["the code of a part was altered", "update audit_register set mac = head where part = 7"],
  ["the row of a part is missing", "delete from audit_register where part = 7"],
  ["the row with the rest of the register is missing", "delete from audit_register where part = 256"],
  [
    "a part has the content and code of a different part",
    `update audit_register set (content, mac) = (select content, mac from audit_register where part = 8) where part = 7`,
  ],
])("startup ignores a snapshot if %s, and verifies from the first record", async (_, lie) => {
  await save();
  await home.sql(lie);
  const started = await start();
  expect(started).toMatchObject({ verified: started.register.head().seq, fromSnapshot: false });
  expect(contentsOf(started.register)).toEqual(contentsOf((await fromTheFirst()).register));
  await erase();
});

test("startup from an older snapshot, whole or mixed with the newer one, takes longer but gives the same register", async () => {
  await save();
  const { seq } = (await start()).register.head();
  await home.sql("create table older as select * from audit_register");
  await write(5);
  await save();
  const behind = (await start()).register.head().seq - seq + 1;
  for (const which of ["part = 200", "part % 2 = 0", "part = 256", "true"]) {
    await home.sql(`delete from audit_register where ${which}`);
    await home.sql(`insert into audit_register select * from older where ${which}`);
    const started = await start();
    expect(started, which).toMatchObject({ verified: behind, fromSnapshot: true });
    expect(contentsOf(started.register), which).toEqual(contentsOf((await fromTheFirst()).register));
  }
  await home.sql("drop table older");
});

test.each([
  ["part", 0, '{"key":[],"tenant":[],"roots":[],"sequences":[]}'],
  ["part", 3, "no JSON"],
  ["rest", PARTS, '{"residents":[]}'],
])(
  "startup ignores a snapshot whose %s, number %i, has the format of a different version",
  async (_, part, text) => {
    await save();
    const [row] = await home.sql<{ seq: string; head: Buffer }>(
      "select seq::text, head from audit_register where part = $1",
      [part],
    );
    const content = Buffer.from(text);
    const coded = {
      ...{ type: "audit_register_part", version: 1, parts: PARTS, part, seq: Number(row?.seq) },
      ...{ head: row?.head.toString("hex") ?? "", digest: hash("sha256", content, "hex") },
    };
    const [mac] = await token.authenticate([canonicalBytes(coded)]);
    await home.sql("update audit_register set content = $2, mac = $3 where part = $1", [part, content, mac]);
    const started = await start();
    expect(started).toMatchObject({ verified: started.register.head().seq, fromSnapshot: false });
    await erase();
  },
);

test("startup rejects a snapshot of an abandoned chain, whole or mixed with the current one", async () => {
  await save();
  const kept = (await start()).register.head();
  await write(2);
  await save();
  await home.sql("create table given_up as select * from audit_register");
  await alterAudit(`delete from audit where seq > ${kept.seq}`);
  await erase();
  await token.noteHead(kept, true);
  const vault = await startVault(home);
  const call = { caller: API, statement: "call", outcome: "forbidden" } as const;
  await vault.vault.journal.record(call);
  await createSnapshots(vault.vault).save();
  for (let count = 0; count < 40; count += 1) await vault.vault.journal.record(call);
  await vault.stop();
  const right = contentsOf((await fromTheFirst()).register);
  for (const which of ["part = 256", "part % 2 = 0", "true"]) {
    await home.sql(`delete from audit_register where ${which}`);
    await home.sql(`insert into audit_register select * from given_up where ${which}`);
    await expect(start(), which).rejects.toThrow(/is gone|is not the one/);
    const started = await startVault(home);
    expect(contentsOf(started.vault.register), which).toMatchObject({ parts: right.parts, rest: right.rest });
    await started.stop();
  }
  await home.sql("drop table given_up");
  await erase();
});

test("startup rejects a genuine record of an abandoned chain, even if a snapshot was saved at that record", async () => {
  const write = async (outcome: "granted" | "forbidden") => {
    const vault = await startVault(home);
    await vault.vault.journal.record({ caller: API, statement: "call", outcome });
    await vault.stop();
  };
  const kept = (await start()).register.head();
  await write("granted");
  await save();
  const givenUp = (await start()).register.head();
  await home.sql(`create table given_up_records as select * from audit where seq > ${kept.seq}`);
  await alterAudit(`delete from audit where seq > ${kept.seq}`);
  await token.noteHead(kept, true);
  await write("forbidden");
  expect((await token.notedHead()).head?.seq).toBe(givenUp.seq);
  await alterAudit(
    `delete from audit where seq > ${kept.seq}; insert into audit select * from given_up_records; drop table given_up_records`,
  );
  await expect(start()).rejects.toThrow(
    `Audit record ${givenUp.seq} is not the one that the token has noted`,
  );
  const sealed = await startVault(home);
  expect(sealed.sealing.state()).toMatchObject({ reason: "chain_broken" });
  await sealed.stop();
  await token.noteHead(givenUp, true);
  await erase();
});

test("startup verifies the record at which the snapshot was saved", async () => {
  await save();
  const { seq } = (await start()).register.head();
  const say = (statement: string) =>
    alterAudit(`update audit set statement = '${statement}' where seq = ${seq}`);
  const [row] = await home.sql<{ statement: string }>("select statement from audit where seq = $1", [seq]);
  await say("key_enable");
  await expect(start()).rejects.toThrow(`Audit record ${seq} does not verify`);
  await say(row?.statement ?? "");
  expect((await start()).fromSnapshot).toBe(true);
  await erase();
});

test("keepSnapshots saves at shutdown only after at least 1,000 new records", async () => {
  await start(async (register) => {
    const snapshots = createSnapshots({ database, token, register });
    const { seq } = register.head();
    await keepSnapshots({ snapshots, register, log: SILENT }, seq - 999).stop();
    expect(await home.sql("select from audit_register")).toEqual([]);
    await keepSnapshots({ snapshots, register, log: SILENT }, seq - 1_000).stop();
  });
  expect((await start()).fromSnapshot).toBe(true);
});
