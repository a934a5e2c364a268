import { readFile, rm, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { Status } from "../../keyvault/status.ts";
import { encryptPin } from "../../keyvault/token/pin_box.ts";
import {
  codeOf,
  createHome,
  issueAdmins,
  issueIdentity,
  STATEMENTS,
  startVault,
  type TestVault,
} from "./fixture.ts";
import type { Answer, Client } from "./http/caller_support.ts";

vi.setConfig({ testTimeout: 60_000 });

let vault: TestVault;
let pin: Buffer;

let before: number;

/** Starts a vault whose PIN file was removed. */
beforeAll(async () => {
  const home = await createHome();
  pin = Buffer.from((await readFile(home.config.token.pinFile, "utf8")).trim());
  await rm(home.config.token.pinFile);
  vault = await startVault(home);
});
beforeEach(async () => {
  const [row] = await vault.home.sql<{ seq: number }>("select max(seq)::int as seq from audit");
  before = row?.seq ?? 0;
});
afterAll(() => vault.close());

const post = (path: string, body: unknown = {}, client: Client = vault.admin) =>
  vault.post(path, body, client);
const status = async () => (await vault.get("/v1/status")).body as unknown as Status;
const offer = async () => ((await vault.get("/v1/unseal")).body as { offer?: string }).offer;
const seal = () => post("/v1/seal");
const create = () => {
  const body = { tenant: "acc-1", purpose: "agent", label: "a", ceiling: [] };
  return vault.post("/v1/keys", body, vault.api, { "idempotency-key": crypto.randomUUID() });
};
const sign = async (keyId: string) => codeOf(await vault.sign(keyId));
const boxFor = (asked: string, given: Uint8Array = pin) =>
  encryptPin(given, Buffer.from(asked, "base64")).toString("base64");

/** Returns the one-time key for a PIN. Waits while the token's process starts. */
async function freshOffer(): Promise<string> {
  await expect.poll(offer, { timeout: 10_000 }).toBeDefined();
  return (await offer()) ?? "";
}

async function unseal(given: Uint8Array = pin, client: Client = vault.admin): Promise<Answer> {
  const asked = await freshOffer();
  return post("/v1/unseal", { offer: asked, box: boxFor(asked, given) }, client);
}

/** Unseals the vault if needed. Returns a key that signs. */
async function opened(): Promise<string> {
  if (vault.sealing.state() !== undefined) expect((await unseal()).status).toBe(200);
  return String((await create()).body.key_id);
}

async function sealed(): Promise<void> {
  if (vault.sealing.state() === undefined) await seal();
}

const rows = (statement: string) =>
  vault.home.sql<{ caller: string; role: string; outcome: string; detail: Record<string, string> }>(
    "select caller, role, outcome, detail from audit where statement = $1 and seq > $2 order by seq",
    [statement, before],
  );

test("a vault without a PIN file starts sealed, answers only status calls and is not ready", async () => {
  expect(await status()).toMatchObject({
    sealed: { reason: "no_pin_file", by: null },
    token: null,
    kek: null,
    retiring: null,
    keys: { active: 1 },
    audit: { records: before, head: null },
  });
  const key = "0".repeat(32);
  const asApi = ["disable", "ceiling", ...STATEMENTS.map((kind) => `sign/${kind}`)];
  const calls: [Client, string[]][] = [
    [vault.api, ["/v1/keys", ...asApi.map((call) => `/v1/keys/${key}/${call}`)]],
    [
      vault.admin,
      [`/v1/keys/${key}/enable`, `/v1/keys/${key}/destroy`, "/v1/kek/rotate", "/v1/kek/rewrap", "/v1/backup"],
    ],
  ];
  for (const [client, paths] of calls) {
    for (const path of paths) {
      const answer = await post(path, {}, client);
      expect(answer, path).toMatchObject({ status: 503, body: { error: { code: "sealed", status: 503 } } });
    }
  }
  for (const path of ["/v1/keys", "/v1/audit", `/v1/keys/${key}`, "/readyz"]) {
    expect(codeOf(await vault.get(path)), path).toBe("sealed");
  }
  expect((await vault.get("/livez")).status).toBe(200);
  expect(await vault.home.sql("select from keys where purpose <> 'service'")).toEqual([]);
});

test("only admins can seal and unseal, and only with well-formed requests", async () => {
  const auditor = await issueIdentity(vault.home, { kind: "client", role: "auditor", name: "eye" });
  for (const client of [vault.api, auditor]) {
    for (const path of ["/v1/unseal", "/v1/seal"]) {
      expect(codeOf(await post(path, {}, client))).toBe("forbidden");
    }
    expect(codeOf(await vault.get("/v1/unseal", client))).toBe("forbidden");
  }
  expect((await vault.get("/v1/status", auditor)).status).toBe(200);
  expect(codeOf(await vault.get("/v1/status", vault.api))).toBe("forbidden");
  const asked = await freshOffer();
  const box = boxFor(asked);
  const bodies = [
    {},
    { offer: asked },
    { offer: asked, box: `${box}A` },
    { offer: asked, box, pin: "1" },
    { box },
  ];
  for (const body of bodies) expect(codeOf(await post("/v1/unseal", body))).toBe("invalid_request");
  expect((await status()).sealed).not.toBeNull();
});

test("unsealing reports a wrong PIN, opens the vault with the right PIN, and then records all attempts", async () => {
  const { since } = (await status()).sealed!;
  const [first, second] = (await issueAdmins(vault.home, "first", "second")) as [Client, Client];
  for (const [client, given, why] of [
    [first, Buffer.alloc(64, 0x30), "PIN_INCORRECT"],
    [second, Buffer.alloc(31, 0x30), "at least 32"],
  ] as const) {
    expect(await unseal(given, client)).toMatchObject({
      status: 403,
      body: { error: { code: "wrong_pin", message: expect.stringContaining(why) } },
    });
  }
  expect(await unseal()).toMatchObject({ status: 200, body: { sealed: false } });
  const wrong = { outcome: "wrong_pin", detail: { happened_at: expect.stringMatching(/^\d{4}-/) } };
  expect(await rows("unseal")).toEqual([
    { caller: "first", role: "admin", ...wrong },
    { caller: "second", role: "admin", ...wrong },
    {
      caller: "admin",
      role: "admin",
      outcome: "granted",
      detail: { sealed_since: since, reason: "no_pin_file" },
    },
  ]);
  const made = await create();
  expect(made.status).toBe(200);
  expect(await sign(String(made.body.key_id))).toBe(200);
  expect(await status()).toMatchObject({ sealed: null, token: { answers: true, keks: ["kek-1"] } });
  // The vault caches its readiness for a second.
  await expect.poll(async () => (await vault.get("/readyz")).status, { timeout: 10_000 }).toBe(200);
  expect((await vault.verifyAudit()).intact).toBe(true);
  expect(codeOf(await vault.get("/v1/unseal"))).toBe("policy_violation");
});

test("sealing stops all signing and overwrites data keys, and after unsealing the same keys sign again", async () => {
  const keyId = await opened();
  await sign(keyId);
  const { dataKeys, store } = vault.vault;
  const key = await store.find(keyId);
  const kept = await dataKeys.use(key!.dataKey, (dataKey) => dataKey);
  expect(kept).not.toEqual(Buffer.alloc(32));
  const flight = Array.from({ length: 20 }, () => sign(keyId));
  expect(await seal()).toMatchObject({
    status: 200,
    body: { sealed: true, reason: "asked", by: "admin/admin" },
  });
  expect(kept, "even one that is still in use").toEqual(Buffer.alloc(32));
  for (const outcome of await Promise.all(flight)) expect([200, "sealed"]).toContain(outcome);
  expect(await sign(keyId)).toBe("sealed");
  await expect(store.find(keyId), "not cached").rejects.toMatchObject({ code: "sealed" });
  expect(codeOf(await create())).toBe("sealed");
  const [last] = await vault.home.sql("select statement from audit order by seq desc limit 1");
  expect(last, "no record follows the seal's").toEqual({ statement: "seal" });
  expect(await seal()).toMatchObject({ status: 200, body: { by: "admin/admin" } });
  expect((await unseal()).status).toBe(200);
  expect(await sign(keyId)).toBe(200);
  expect(await rows("seal")).toEqual([{ caller: "admin", role: "admin", outcome: "granted", detail: {} }]);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("a PIN encrypted for one run of the token's process does not unseal a later run, and unseals only once", async () => {
  await sealed();
  const first = await freshOffer();
  const box = boxFor(first);
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(offer, { timeout: 10_000 }).not.toBe(first);
  const second = await freshOffer();
  expect(second).not.toBe(first);
  expect(codeOf(await post("/v1/unseal", { offer: first, box }))).toBe("stale_offer");
  const [guesser, other] = (await issueAdmins(vault.home, "guesser", "other")) as [Client, Client];
  expect(codeOf(await post("/v1/unseal", { offer: second, box }, guesser))).toBe("stale_offer");
  expect((await status()).sealed).not.toBeNull();

  const third = await freshOffer();
  const good = { offer: third, box: boxFor(third) };
  expect((await post("/v1/unseal", good, other)).status).toBe(200);
  await seal();
  await freshOffer();
  expect(codeOf(await post("/v1/unseal", good, other))).toBe("stale_offer");
});

test("the vault is sealed if its token process dies and there is no PIN file", async () => {
  const keyId = await opened();
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(async () => (await status()).sealed?.reason, { timeout: 10_000 }).toBe("process_ended");
  expect(await sign(keyId)).toBe("sealed");
  expect((await unseal()).status).toBe(200);
  expect(await sign(keyId)).toBe(200);
  expect((await rows("unseal")).at(-1)?.detail.reason).toBe("process_ended");
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("sealing works without a database and is recorded after the next unsealing", async () => {
  await opened();
  await vault.home.sql("alter table audit add constraint full_disk check (false) not VALID");
  expect((await seal()).status).toBe(200);
  expect((await status()).sealed).toMatchObject({ reason: "asked" });
  expect(await rows("seal")).toEqual([]);
  expect(codeOf(await unseal()), "who cannot be recorded does not unseal").toBe("audit_unavailable");
  expect((await status()).sealed).toMatchObject({ reason: "asked" });
  await vault.home.sql("alter table audit drop constraint full_disk");
  expect((await unseal()).status).toBe(200);
  expect(await rows("seal")).toMatchObject([{ caller: "admin", outcome: "granted" }]);
});

test("a vault with a PIN file reopens automatically after its token process dies, unless an admin sealed it", async () => {
  await writeFile(vault.home.config.token.pinFile, pin, { mode: 0o600 });
  vault = await vault.restart();
  expect((await status()).sealed).toBeNull();
  const keyId = String((await create()).body.key_id);
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(() => sign(keyId), { timeout: 10_000 }).toBe(200);
  expect((await status()).sealed).toBeNull();
  await seal();
  await freshOffer();
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(() => vault.token.pid(), { timeout: 10_000 }).toBeDefined();
  await freshOffer();
  expect((await status()).sealed).toMatchObject({ reason: "asked", by: "admin/admin" });
  await rm(vault.home.config.token.pinFile);
});

test("a vault with an altered audit stays sealed after the right PIN", async () => {
  vault = await vault.restart();
  await vault.home.sql(
    "alter table audit disable trigger audit_append_only; update audit set caller = 'mallory' where seq = (select max(seq) from audit)",
  );
  expect(await unseal()).toMatchObject({
    status: 503,
    body: { error: { code: "unavailable", message: expect.stringContaining("does not verify") } },
  });
  expect((await status()).sealed).toMatchObject({ reason: "chain_broken" });
  expect(codeOf(await create())).toBe("sealed");
});
