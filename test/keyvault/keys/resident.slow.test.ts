import { cp, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createBackups } from "../../../keyvault/backup/create.ts";
import { createRecoveryKey } from "../../../keyvault/backup/encrypted_stream.ts";
import { restoreBackup } from "../../../keyvault/backup/restore.ts";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { createMetrics } from "../../../keyvault/metrics.ts";
import type { Status } from "../../../keyvault/status.ts";
import { challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import {
  type HybridPublicKey,
  type HybridSignature,
  verifyHybrid,
} from "../../../src/protocol/keys/hybrid.ts";
import {
  API,
  createHome,
  issueIdentity,
  readIdentity,
  SILENT,
  startVault,
  type TestVault,
  type VaultHome,
} from "../fixture.ts";
import { type Client, call } from "../http/caller_support.ts";

vi.setConfig({ testTimeout: 60_000 });

const LIMIT = 6;
const DAY = 86_400;

let home: VaultHome;
let vault: TestVault;
let api: Client;
let admins: [Client, Client];

beforeAll(async () => {
  home = await createHome();
  home.config = { ...home.config, residentKeys: LIMIT };
  vault = await startVault(home);
  api = readIdentity(home, "api");
  const year = {
    notBefore: new Date(Date.now() - 1_000 * DAY),
    notAfter: new Date(Date.now() + 365_000 * DAY),
  };
  const admin = (name: string) => issueIdentity(home, { kind: "client", role: "admin", name }, year);
  admins = [await admin("one"), await admin("two")];
});
afterAll(() => vault.close());

const post = (path: string, body: object, client: Client = api, headers: Record<string, string> = {}) =>
  call(`${vault.url}${path}`, client, { method: "POST", body, headers });
const create = (tenant: string, name: string) =>
  post("/v1/keys", { tenant, purpose: "agent", label: "agent", ceiling: [], resident: true }, api, {
    "idempotency-key": name,
  });
const status = async () => (await call(`${vault.url}/v1/status`, admins[0])).body as unknown as Status;
const labels = async () => (await vault.token.listResidents()).labels.sort();
const stored = async () =>
  (await home.sql<{ label: string }>("select label from residents order by label")).map(({ label }) => label);
const labelOf = async (keyId: string) =>
  (await home.sql<{ label: string }>("select label from residents where key_id = $1", [keyId]))[0]?.label;

async function make(tenant: string, name: string) {
  const { status, body } = await create(tenant, name);
  expect(body.error?.code, name).toBeUndefined();
  expect(status).toBe(200);
  return body as unknown as { key_id: string; public_key: HybridPublicKey };
}

async function sign(tenant: string, keyId: string) {
  const binding = {
    challenge: Buffer.alloc(32, 1).toString("base64"),
    challenge_at: unixSeconds(vault.clock.now()),
  };
  const { status, body } = await post(`/v1/keys/${keyId}/sign/challenge`, { tenant, ...binding });
  return {
    status,
    code: body.error?.code,
    signature: body.challenge_sig as HybridSignature,
    bytes: challengeSignBytes(binding),
  };
}

async function signsFor(
  tenant: string,
  key: { key_id: string; public_key: HybridPublicKey },
): Promise<boolean> {
  const { status, signature, bytes } = await sign(tenant, key.key_id);
  return status === 200 && verifyHybrid(key.public_key, bytes, signature);
}

async function destroyNow(path: string): Promise<void> {
  for (const admin of admins) expect((await post(path, { after_days: 7 }, admin)).status).toBe(200);
}

test("a resident key signs with both halves, and its Ed25519 seed is in no row", async () => {
  const key = await make("acc-1", "resident-1");
  expect(await signsFor("acc-1", key)).toBe(true);
  const [row] = await home.sql<{ wrapped_seeds: Buffer; seeds_version: number }>(
    "select wrapped_seeds, seeds_version from keys where key_id = $1",
    [key.key_id],
  );
  expect(row?.seeds_version).toBe(2);
  expect(row?.wrapped_seeds, "nonce, one seed, tag").toHaveLength(12 + 32 + 16);
  expect(await labels()).toEqual(await stored());
  expect((await call(`${vault.url}/v1/keys/${key.key_id}`, admins[0])).body).toMatchObject({
    resident: true,
  });
  expect(await status()).toMatchObject({
    token: { resident: ["ed25519"] },
    residents: { keys: 1, limit: LIMIT, missing: [], unknown: [] },
  });
});

test("the same request gives the same key and makes nothing more in the token", async () => {
  const first = await make("acc-1", "resident-1");
  const before = await labels();
  expect(await make("acc-1", "resident-1")).toEqual(first);
  expect(await labels()).toEqual(before);
});

test("concurrent requests of one name make one key, and nothing else is left in the token", async () => {
  const made = await Promise.all(Array.from({ length: 3 }, () => create("acc-2", "resident-at-once")));
  expect(new Set(made.map(({ body }) => body.key_id)).size).toBe(1);
  expect(await labels()).toEqual(await stored());
  expect(await stored()).toHaveLength(2);
});

test("a label that was given to another key in the database signs nothing: no foreign signature leaves", async () => {
  const [one, other] = [await make("acc-1", "resident-1"), await make("acc-2", "resident-at-once")];
  const [first, second] = [await labelOf(one.key_id), await labelOf(other.key_id)];
  const swap = (a: string, b: string) =>
    home.sql("update residents set key_id = case label when $1 then $3 else $4 end where label in ($1, $2)", [
      first,
      second,
      a,
      b,
    ]);
  await home.sql("alter table residents drop constraint residents_key_id_key");
  await swap(other.key_id, one.key_id);
  vault = await vault.restart();
  expect(await sign("acc-1", one.key_id)).toMatchObject({ status: 500, code: "key_damaged" });
  await swap(one.key_id, other.key_id);
  await home.sql("alter table residents add unique (key_id)");
  vault = await vault.restart();
  expect(await signsFor("acc-1", one)).toBe(true);
});

test.each(["kek-1", "audit-1", "", `key-${"0".repeat(32)}`])(
  "a label altered to %j is its own key's fault: the token's process goes on, and a vault without PIN file stays open",
  async (altered) => {
    const [key, other] = [
      await make("acc-1", "resident-1"),
      await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] }),
    ];
    const label = await labelOf(key.key_id);
    await home.sql("alter table residents drop constraint if exists residents_label_check");
    await home.sql("update residents set label = $2 where label = $1", [label, altered]);
    await rename(home.config.token.pinFile, join(home.dir, "kept-elsewhere"));
    vault.vault.store.changed();
    const before = vault.token.pid();
    try {
      expect(await sign("acc-1", key.key_id)).toMatchObject({ status: 500, code: "key_damaged" });
      expect(await sign("acc-1", other.key_id)).toMatchObject({ status: 200 });
      expect(await status()).toMatchObject({ sealed: null, token: { answers: true } });
      expect(vault.token.pid()).toBe(before);
    } finally {
      await rename(join(home.dir, "kept-elsewhere"), home.config.token.pinFile);
      await home.sql("update residents set label = $2 where label = $1", [altered, label]);
      vault.vault.store.changed();
    }
    expect(await signsFor("acc-1", key)).toBe(true);
  },
);

test("disabled it signs no more; enabled by two admins it does", async () => {
  const key = await make("acc-1", "resident-1");
  await post(`/v1/keys/${key.key_id}/disable`, { tenant: "acc-1" });
  expect(await sign("acc-1", key.key_id)).toMatchObject({ code: "key_disabled" });
  for (const admin of admins) await post(`/v1/keys/${key.key_id}/enable`, {}, admin);
  expect(await signsFor("acc-1", key)).toBe(true);
});

test("as many as the setting says, not one more; what a refused request made is not left in the token", async () => {
  for (let count = (await stored()).length; count < LIMIT; count += 1) {
    await make("acc-3", `resident-of-three-${count}`);
  }
  expect((await create("acc-3", "one-too-many")).body.error).toMatchObject({
    code: "policy_violation",
    message: expect.stringContaining(`${LIMIT} resident keys`),
  });
  expect(await stored()).toHaveLength(LIMIT);
  expect(await labels()).toEqual(await stored());
});

test("a destroyed key's half is gone from the token when the days are over, and so are those of a destroyed tenant", async () => {
  const key = await make("acc-1", "resident-1");
  const other = await make("acc-2", "resident-at-once");
  const [mine, theirs] = [await labelOf(key.key_id), await labelOf(other.key_id)];
  await destroyNow(`/v1/keys/${key.key_id}/destroy`);
  await destroyNow("/v1/tenants/acc-2/destroy");
  vault.clock.move(7 * DAY - 1);
  vault = await restartAt(vault.clock.at);
  expect(await labels()).toEqual(expect.arrayContaining([mine, theirs]));
  vault = await restartAt(new Date(vault.clock.at.getTime() + 2_000));
  await expect.poll(stored, { timeout: 10_000 }).not.toContain(mine);
  await expect.poll(stored, { timeout: 10_000 }).not.toContain(theirs);
  expect(await labels()).toEqual(await stored());
  expect(await home.sql("select key_id from audit where statement = 'resident_erase' order by seq")).toEqual(
    expect.arrayContaining([{ key_id: key.key_id }, { key_id: other.key_id }]),
  );
  expect((await vault.verifyAudit()).intact).toBe(true);
});

/** The vault once more, with its clock at this time from the start. */
async function restartAt(at: Date): Promise<TestVault> {
  await vault.stop();
  return startVault(home, at);
}

test("what a crash left is put right at the start: halves without a key go, the label before them too", async () => {
  const [kept] = await home.sql<{ label: string; key_id: string }>(
    "select label, key_id from residents where key_id is not null limit 1",
  );
  const [onlyLabel, withHalf] = ["0", "1"].map((digit) => `key-${digit.repeat(32)}`) as [string, string];
  for (const label of [onlyLabel, withHalf]) await reserve(label);
  await vault.token.createResident(withHalf, ["ed25519"]);
  vault = await restartAt(vault.clock.at);
  expect(await stored()).not.toEqual(expect.arrayContaining([onlyLabel]));
  expect(await labels()).toEqual(await stored());
  expect(await labels()).toContain(kept!.label);
  expect((await status()).residents).toMatchObject({ missing: [], unknown: [] });
});

/** Does what the making of a resident key begins with, and no more. */
const reserve = (label: string) =>
  vault.vault.journal.change(async (client) => {
    await client.query("insert into residents (label, created_at) values ($1, now())", [label]);
    const caller = { role: "local", name: "residents" } as const;
    const entry = { caller, statement: "resident_make", outcome: "granted", detail: { label } } as const;
    return { value: undefined, entry };
  });

test.each([
  [
    "says that a key is destroyed",
    "update keys set state = 'destroyed', disabled_at = now(), destroy_at = now() where key_id = $1",
  ],
  [
    "says that a key's tenant is destroyed",
    `update tenants set state = 'destroyed', destroy_at = now()
     where tenant = (select tenant from keys where key_id = $1)`,
  ],
  [
    "says that no key got it",
    "update residents set key_id = null, created_at = '2020-01-01' where key_id = $1",
  ],
])("a half is not destroyed on the word of a database that %s", async (_, lie) => {
  const [row] = await home.sql<{ label: string; key_id: string; tenant: string }>(
    `select residents.label, key_id, tenant from residents join keys using (key_id) join tenants using (tenant)
     where keys.state = 'active' and tenants.state = 'active' limit 1`,
  );
  const { label, key_id, tenant } = row!;
  await home.sql(lie, [key_id]);
  const { seq } = vault.vault.journal.head();
  expect(await vault.vault.sweepResidents()).toBe(0);
  vault = await restartAt(vault.clock.at);
  expect(await labels()).toContain(label);
  expect(await home.sql("select from audit where seq > $1 and statement = 'resident_erase'", [seq])).toEqual(
    [],
  );
  await home.sql(
    "update keys set state = 'active', disabled_at = null, destroy_at = null where key_id = $1",
    [key_id],
  );
  await home.sql("update tenants set state = 'active', destroy_at = null where tenant = $1", [tenant]);
  await home.sql("update residents set key_id = $1 where label = $2", [key_id, label]);
  vault.vault.store.changed();
  expect((await sign(tenant, key_id)).status).toBe(200);
});

test("a half of another's is not destroyed because the database has its label", async () => {
  const label = `key-${"2".repeat(32)}`;
  await vault.token.createResident(label, ["ed25519"]);
  await home.sql("insert into residents (label, created_at) values ($1, '2020-01-01')", [label]);
  expect(await vault.vault.sweepResidents()).toBe(0);
  vault = await restartAt(vault.clock.at);
  expect(await labels()).toContain(label);
  await home.sql("delete from residents where label = $1", [label]);
  await vault.token.destroyResident(label);
});

test("a half that is just being made for a key is not swept, and not taken from the key by the database's word", async () => {
  const swept: number[] = [];
  const made = make("acc-1", "resident-swept");
  const sweeping = (async () => {
    for (let round = 0; round < 20; round += 1) {
      swept.push(await vault.vault.sweepResidents());
      await home.sql("update residents set key_id = null where key_id is not null");
    }
  })();
  const key = await made;
  await sweeping;
  expect(swept.every((count) => count === 0)).toBe(true);
  const [label] = [...vault.vault.register.residents()].find(([, owner]) => owner?.keyId === key.key_id)!;
  expect(await labels()).toContain(label);
  for (const [known, owner] of vault.vault.register.residents()) {
    await home.sql("update residents set key_id = $1 where label = $2", [owner?.keyId, known]);
  }
  vault.vault.store.changed();
  expect(await signsFor("acc-1", key)).toBe(true);
});

test("a key whose half is gone, and a half that no record knows, are shown; the unknown half is left alone", async () => {
  const [lost] = await home.sql<{ label: string; key_id: string; tenant: string }>(
    "select residents.label, key_id, tenant from residents join keys using (key_id) limit 1",
  );
  const foreign = `key-${"f".repeat(32)}`;
  await vault.token.createResident(foreign, ["ed25519"]);
  await vault.token.destroyResident(lost!.label);
  vault = await restartAt(vault.clock.at);
  expect((await status()).residents).toMatchObject({ missing: [lost!.key_id], unknown: [foreign] });
  expect(await sign(lost!.tenant, lost!.key_id)).toMatchObject({ status: 500, code: "key_damaged" });
  expect(await labels()).toContain(foreign);
  await vault.token.destroyResident(foreign);
});

test("a backup has the halves: restored elsewhere, the key signs under its old public key", async () => {
  const there = await labels();
  const rows = await home.sql<{ label: string; key_id: string; public_key: HybridPublicKey }>(
    "select residents.label, key_id, public_key from residents join keys using (key_id)",
  );
  const { key_id, public_key } = rows.find(({ label }) => there.includes(label))!;
  const { publicKey, privateKey } = createRecoveryKey();
  await writeFile(home.config.recoveryKeyFile, publicKey);
  const backup = await createBackups({
    ...vault.vault,
    config: home.config,
    clock: vault.clock,
    metrics: createMetrics(),
  })(API);
  if (isRefusal(backup)) throw new Error(backup.message);
  const pieces: Buffer[] = await backup.toArray();
  const source = () => Readable.from(pieces);
  const origin = { serviceKey: vault.vault.service.keyId };

  const elsewhere = await createHome({ made: "empty" });
  await mkdir(elsewhere.config.dataDir, { recursive: true });
  await cp(join(home.config.dataDir, "tls"), join(elsewhere.config.dataDir, "tls"), { recursive: true });
  await writeFile(elsewhere.config.token.pinFile, await readFile(home.config.token.pinFile), { mode: 0o600 });
  await restoreBackup(elsewhere.config, source, { recoveryKey: privateKey, origin }, SILENT);
  const restored = await startVault(elsewhere, vault.clock.at);
  try {
    const key = await restored.vault.store.find(key_id);
    const bytes = Buffer.from("a statement");
    expect(await verifyHybrid(public_key, bytes, await restored.vault.custody.sign(key!, bytes))).toBe(true);
    expect(restored.vault.residents.unknown).toEqual([]);
  } finally {
    await restored.close();
  }
});

test("without the setting there are none", async () => {
  home.config = { ...home.config, residentKeys: 0 };
  vault = await restartAt(vault.clock.at);
  const refused = await vault.vault.createKey(API, "no-more", {
    tenant: "acc-9",
    purpose: "agent",
    label: "agent",
    resident: true,
  });
  expect(refused).toMatchObject({ refused: "policy_violation" });
  expect((await create("acc-9", "no-more-either")).body.error?.code).toBe("policy_violation");
});
