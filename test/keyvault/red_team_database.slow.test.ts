import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { createSnapshots } from "../../keyvault/audit/snapshots.ts";
import { restoreBackup } from "../../keyvault/backup/restore.ts";
import { migrationNames } from "../../keyvault/db/migrate.ts";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { earlierRows, machineFor, writeEarlierBackup } from "./backup/earlier_support.ts";
import { codeOf, issueAdmins, SILENT, startVault, type TestVault } from "./fixture.ts";
import type { Answer, Client } from "./http/caller_support.ts";
import { delegationRequest } from "./sign/delegation_request.ts";

/*
 * Every attempt uses the vault's own database role, to change rows before and after a startup or a call.
 * Afterwards the attacker restores the audit's records, so that a later verification finds no fault.
 */

vi.setConfig({ testTimeout: 60_000 });

let vault: TestVault;
/** Alice and Bob. Every vault that starts on the genuine home accepts their certificates. */
let admins: Client[];

beforeAll(async () => {
  vault = await startVault();
  admins = await issueAdmins(vault.home, "alice", "bob");
});
afterAll(() => vault.close());
afterEach(putAuditBack);

const sql = <Row extends Record<string, unknown>>(text: string, values?: unknown[]) =>
  vault.home.sql<Row>(text, values);
const outcomeOf = async (answer: Promise<Answer>) => codeOf(await answer);
const sign = (keyId: string, tenant: string) => outcomeOf(vault.sign(keyId, tenant));
const createKey = (body: object) =>
  outcomeOf(
    vault.post("/v1/keys", { label: "key", ...body }, vault.api, { "idempotency-key": randomUUID() }),
  );
const delegate = (root: CreatedKey, agent: CreatedKey, tenant: string, scope: string) => {
  const change = { tenant, certificate: { scope: [scope] }, approval: { ceiling: [scope] } };
  const body = delegationRequest(root, agent, vault.now(), change);
  return outcomeOf(vault.post(`/v1/keys/${root.key_id}/sign/delegation`, body));
};
/** Requests the change as both admins. Returns the response to Bob. */
const askBoth = async (path: string, body: object = {}) => {
  await vault.post(path, body, admins[0]);
  return outcomeOf(vault.post(path, body, admins[1]));
};
const makeAgent = async (tenant: string) => (await vault.makeAgent(tenant)).key_id;

async function makePair(tenant: string): Promise<[root: CreatedKey, agent: CreatedKey]> {
  const make = (purpose: "account_root" | "agent") =>
    vault.makeKey({ tenant, purpose, label: purpose, ceiling: ["data:read"] });
  return [await make("account_root"), await make("agent")];
}

/** Keeps a copy of the original records. Only the owner of the table can alter them. */
const alterAudit = (change: string) =>
  sql(
    `create table if not exists genuine as select * from audit;
     alter table audit disable trigger audit_append_only;
     ${change};
     alter table audit enable trigger audit_append_only`,
  );

/** Restores every altered or removed record. */
async function putAuditBack(): Promise<void> {
  await alterAudit(
    `delete from audit using genuine where audit.seq = genuine.seq and audit <> genuine;
     insert into audit select * from genuine on conflict do nothing`,
  );
  await sql("drop table genuine");
}

/**
 * Returns the reason why the vault is sealed, or `open`. If it is sealed, restarts it on the genuine records.
 */
async function restartOnAltered(): Promise<string> {
  vault = await vault.restart();
  const reason = vault.sealing.state()?.reason;
  if (reason === undefined) return "open";
  await vault.stop();
  await putAuditBack();
  vault = await startVault(vault.home);
  return reason;
}

test("altering an adoption's record so that it looks undone does not widen a ceiling", async () => {
  const [root, agent] = await makePair("acc-1");
  await sql(
    `update keys set ceiling = '["payments:send"]', state_seq = null, state_mac = null where tenant = 'acc-1'`,
  );
  await alterAudit("update audit set statement = 'call' where statement in ('state_adopt', 'key_create')");
  expect(await restartOnAltered()).toBe("chain_broken");
  expect(await delegate(root, agent, "acc-1", "payments:send")).toBe("key_damaged");
  expect(await askBoth("/v1/states/adopt")).toBe("policy_violation");
  expect(await delegate(root, agent, "acc-1", "payments:send")).toBe("key_damaged");
});

test("a disabled key stays disabled if its earlier row is restored and the record that disabled it is altered", async () => {
  const key_id = await makeAgent("acc-2");
  await sql("create table former as select * from keys");
  await vault.disable(key_id, "acc-2");
  await vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "so that the chain's end stays" });
  await sql(
    `update keys set (state, disabled_at, state_seq, state_mac) =
       (select state, disabled_at, state_seq, state_mac from former where former.key_id = keys.key_id)
     where key_id = '${key_id}'; drop table former`,
  );
  await alterAudit(`update audit set statement = 'challenge' where statement = 'key_disable'`);
  vault.vault.store.changed();
  expect(await sign(key_id, "acc-2"), "running").toBe("key_damaged");
  expect(await restartOnAltered()).toBe("chain_broken");
  expect(await sign(key_id, "acc-2"), "started again").toBe("key_damaged");
});

test("a tenant gets no second root key with a wider ceiling after the first root key's row was removed and its record was altered", async () => {
  await makePair("acc-3");
  await sql("create table former as select * from keys where tenant = 'acc-3' and purpose = 'account_root'");
  await sql("delete from keys where tenant = 'acc-3' and purpose = 'account_root'");
  await alterAudit(
    "update audit set purpose = 'agent' where statement = 'key_create' and detail ->> 'tenant' = 'acc-3'",
  );
  const wider = { tenant: "acc-3", purpose: "account_root", ceiling: ["payments:send"] };
  expect(await createKey(wider)).toBe("key_damaged");
  await sql("insert into keys select * from former; drop table former");
  expect(await createKey(wider)).toBe("policy_violation");
});

test("a revocation stays in force if the last list and its record are altered", async () => {
  const [root] = await makePair("acc-4");
  const list = (at: number, revoked_certs: string[]) =>
    outcomeOf(
      vault.post(`/v1/keys/${root.key_id}/sign/revocation-list`, {
        tenant: "acc-4",
        updated_at: vault.now() + at,
        revoked_certs,
        expires_at: revoked_certs.map(() => 0),
      }),
    );
  expect(await list(0, [])).toBe(200);
  const [earlier] = await sql("select * from listed_certificates where key_id = $1", [root.key_id]);
  expect(await list(1, ["cert-1"])).toBe(200);
  await vault.makeKey({ tenant: "acc-4", purpose: "agent", label: "so that the chain's end stays" });
  const ofLast = "statement = 'revocation_list' AND detail ->> 'certificates' = '1'";
  await alterAudit(`update audit set outcome = 'failed' where ${ofLast}`);
  expect(await list(2, []), "running").toBe("policy_violation");
  await sql("update listed_certificates set digest = $2, listed = $3 where key_id = $1", [
    root.key_id,
    earlier?.digest,
    earlier?.listed,
  ]);
  expect(await list(2, []), "with an earlier list put back").toBe("key_damaged");
  expect(await restartOnAltered()).toBe("chain_broken");
  expect(await list(2, []), "started again").toBe("key_damaged");
});

test("no call makes the vault write a valid code for an altered row", async () => {
  const [root] = await makePair("acc-6");
  const codeInRow = async () =>
    (
      await sql<{ mac: string }>("select state_mac::text as mac from keys where key_id = $1", [root.key_id])
    )[0]?.mac;
  const before = await codeInRow();
  await sql(`update keys set ceiling = '["payments:send"]' where key_id = $1`, [root.key_id]);
  await alterAudit("update audit set statement = 'call' where statement = 'state_adopt'");
  const harmless = [
    () => vault.shrink(root.key_id, "acc-6", ["payments:send"]),
    () => vault.disable(root.key_id, "acc-6"),
  ];
  for (const tried of harmless) await expect(tried()).rejects.toMatchObject({ code: "key_damaged" });
  expect(await codeInRow()).toBe(before);
});

test("a code made for a change that the database rejected is not valid for the next change", async () => {
  const key_id = await makeAgent("acc-7");
  await vault.disable(key_id, "acc-7");
  expect(await outcomeOf(vault.post(`/v1/keys/${key_id}/enable`, {}, admins[0]))).toBe(200);
  const seq = vault.head();
  const row = await vault.vault.database("keys").where({ key_id }).first();
  const { keys } = await vault.vault.rowCodes.add({
    keys: [{ ...row, state: "active", disabled_at: null, pending: null, state_seq: seq + 1 }],
    tenants: [],
  });
  expect(await outcomeOf(vault.post(`/v1/keys/${key_id}/destroy`, { after_days: 7 }, admins[0]))).toBe(200);
  await sql(
    `update keys set state = 'active', disabled_at = null, pending = null, state_seq = $2, state_mac = $3
     where key_id = $1`,
    [key_id, seq + 1, keys[0]?.state_mac],
  );
  vault.vault.store.changed();
  expect(vault.vault.register.changedAt("key", key_id)).toBe(seq + 1);
  expect(await sign(key_id, "acc-7")).toBe("key_damaged");
});

test.each(["from the first record", "from a snapshot"])(
  "after a startup %s, a change is in force even if its record and all later records were removed and the earlier row was restored",
  async (start) => {
    const key_id = await makeAgent("acc-8");
    if (start === "from a snapshot") await createSnapshots(vault.vault).save();
    await sql("create table former as select * from keys");
    const seq = vault.head();
    await vault.disable(key_id, "acc-8");
    const noted = await vault.token.notedHead();
    expect(noted.head?.seq, "noted before the change was answered").toBe(seq + 1);
    await sql(
      `update keys set (state, disabled_at, state_seq, state_mac) =
       (select state, disabled_at, state_seq, state_mac from former where former.key_id = keys.key_id)
     where key_id = '${key_id}'; drop table former`,
    );
    await alterAudit(`delete from audit where seq > ${seq}`);
    expect(await restartOnAltered()).toBe("chain_broken");
    expect(await sign(key_id, "acc-8")).toBe("key_damaged");
  },
);

test("the head is noted within a second of a signature and at shutdown, so the removal of the signature's record is detected", async () => {
  const key_id = await makeAgent("acc-9");
  expect(await sign(key_id, "acc-9")).toBe(200);
  const seq = vault.head();
  const noted = async () => (await vault.token.notedHead()).head?.seq;
  await expect.poll(noted, { timeout: 10_000 }).toBe(seq);
  expect(await sign(key_id, "acc-9")).toBe(200);
  await vault.stop();
  await alterAudit(`delete from audit where seq > ${seq}`);
  vault = await startVault(vault.home);
  expect(vault.sealing.state()?.reason).toBe("chain_broken");
  await vault.stop();
  await putAuditBack();
  vault = await startVault(vault.home);
  expect(await sign(key_id, "acc-9")).toBe(200);
});

test("a forged backup gives no permissions: its altered rows are damaged, and altered records seal the vault", async () => {
  const [root, agent] = await makePair("acc-10");
  const rows = await earlierRows(vault, migrationNames().length);
  const wider = { ceiling: ["payments:send"], state_seq: null, state_mac: null };
  const keys = rows.tables.keys?.map((row) => ({
    ...row,
    ...("key_id" in row && row.key_id === root.key_id && wider),
  }));
  const unsaid = rows.tables.audit?.map((row) =>
    "key_id" in row && row.key_id === root.key_id ? { ...row, statement: "call" } : row,
  );
  const forged = { ...rows.tables, keys: keys ?? [] };
  const backups: [tables: Record<string, object[]>, outcome: string | undefined][] = [
    [forged, undefined],
    [{ ...forged, audit: unsaid ?? [] }, "chain_broken"],
    [{ ...forged, audit: [] }, "chain_broken"],
  ];
  for (const [tables, outcome] of backups) {
    const { file, key } = await writeEarlierBackup(vault, { ...rows, tables }, migrationNames());
    const home = await machineFor(vault);
    const recoveryKey = await readFile(key, "utf8");
    const source = () => createReadStream(file);
    await restoreBackup(home.config, source, { recoveryKey, origin: "unsigned" }, SILENT);
    const restored = await startVault(home, vault.clock.at);
    expect(restored.sealing.state()?.reason).toBe(outcome);
    if (outcome === undefined) {
      const genuine = vault;
      vault = restored;
      expect(await delegate(root, agent, "acc-10", "payments:send")).toBe("key_damaged");
      expect(await askBoth("/v1/states/adopt")).toBe("policy_violation");
      vault = genuine;
    }
    await restored.close();
  }
});

test("a destroyed tenant does not become active again with the code made for its next key", async () => {
  const key_id = await makeAgent("acc-11");
  expect(await askBoth("/v1/tenants/acc-11/destroy", { after_days: 7 })).toBe(200);
  await sql(
    `update tenants set state = 'active', destroy_at = null where tenant = 'acc-11';
     create function steal() returns trigger language plpgsql as $$
     begin
       update tenants set state_seq = NEW.state_seq, state_mac = NEW.state_mac where tenant = NEW.tenant;
       RETURN NEW;
     end $$;
     create trigger steal before insert on tenants for each row execute function steal()`,
  );
  const made = await createKey({ tenant: "acc-11", purpose: "agent", ceiling: [] });
  await sql("drop trigger steal on tenants; drop function steal");
  expect(made).toBe("key_damaged");
  vault.vault.store.changed();
  expect(await sign(key_id, "acc-11")).toBe("key_damaged");
});
