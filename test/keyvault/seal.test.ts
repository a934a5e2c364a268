import { randomUUID } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import type { Status } from "../../keyvault/status.ts";
import { encryptPin } from "../../keyvault/token/pin_box.ts";
import {
  createHome,
  issueIdentity,
  readIdentity,
  startVault,
  type TestVault,
  type VaultHome,
} from "./fixture.ts";
import { type Answer, type Client, call } from "./http/caller_support.ts";

vi.setConfig({ testTimeout: 60_000 });

let home: VaultHome;
let vault: TestVault;
let api: Client;
let admin: Client;
let pin: Buffer;

/** The number of the last record before the test. */
let before: number;

/** One home whose PIN file was taken away, and for each test a vault that starts on it. */
beforeAll(async () => {
  home = await createHome();
  [api, admin] = [readIdentity(home, "api"), readIdentity(home, "admin")];
  pin = Buffer.from((await readFile(home.config.token.pinFile, "utf8")).trim());
  await rm(home.config.token.pinFile);
});
beforeEach(async () => {
  const [row] = await home.sql<{ seq: number }>("select max(seq)::int as seq from audit");
  before = row?.seq ?? 0;
});
afterEach(() => vault.stop());
afterAll(() => home.remove());

const get = (path: string, client = admin) => call(`${vault.url}${path}`, client);
const post = (path: string, body: unknown = {}, client = admin, headers: Record<string, string> = {}) =>
  call(`${vault.url}${path}`, client, { method: "POST", body, headers });
const codeOf = ({ body }: Answer) => body.error?.code;
const status = async () => (await get("/v1/status")).body as unknown as Status;
const offer = async () => ((await get("/v1/unseal")).body as { offer?: string }).offer;
const create = () =>
  post("/v1/keys", { tenant: "acc-1", purpose: "agent", label: "a", ceiling: [] }, api, {
    "idempotency-key": randomUUID(),
  });
const sign = (keyId: string) =>
  post(
    `/v1/keys/${keyId}/sign/challenge`,
    {
      tenant: "acc-1",
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
    api,
  );

/** An offer, waiting for the token's process when it is being started. */
async function freshOffer(): Promise<string> {
  let found: string | undefined;
  await expect
    .poll(
      async () => {
        found = await offer();
        return found;
      },
      { timeout: 10_000 },
    )
    .toBeDefined();
  return found!;
}

async function unseal(given: Uint8Array = pin, client = admin): Promise<Answer> {
  const asked = await freshOffer();
  const box = encryptPin(given, Buffer.from(asked, "base64")).toString("base64");
  return post("/v1/unseal", { offer: asked, box }, client);
}

/** Another try of the same admin, past HTTP: an admin who has to wait is told so whatever the offer. */
const tryAtOnce = () => vault.sealing.unseal({ role: "admin", name: "admin" }, { offer: "", box: "" });

const rows = (statement: string) =>
  home.sql<{ caller: string; role: string; outcome: string; detail: Record<string, string> }>(
    "select caller, role, outcome, detail from audit where statement = $1 and seq > $2 order by seq",
    [statement, before],
  );

test("without a PIN file it starts sealed: every call but the status is answered `sealed`, and it is not ready", async () => {
  vault = await startVault(home);
  expect(await status()).toMatchObject({
    sealed: { reason: "no_pin_file", by: null },
    token: null,
    kek: null,
    retiring: null,
    keys: { active: 1 },
    audit: { head: null },
  });
  const key = "0".repeat(32);
  const posts: [string, object, Client][] = [
    ["/v1/keys", {}, api],
    ...[
      "delegation",
      "challenge",
      "revocation-list",
      "revocation-push",
      "key-rotation",
      "receipt",
      "checkpoint",
    ].map((kind) => [`/v1/keys/${key}/sign/${kind}`, {}, api] as [string, object, Client]),
    [`/v1/keys/${key}/disable`, {}, api],
    [`/v1/keys/${key}/ceiling`, {}, api],
    [`/v1/keys/${key}/enable`, {}, admin],
    [`/v1/keys/${key}/destroy`, {}, admin],
    ["/v1/kek/rotate", {}, admin],
    ["/v1/kek/rewrap", {}, admin],
    ["/v1/backup", {}, admin],
  ];
  for (const [path, body, client] of posts) {
    expect(await post(path, body, client), path).toMatchObject({
      status: 503,
      body: { error: { code: "sealed", status: 503 } },
    });
  }
  for (const path of ["/v1/keys", "/v1/audit", `/v1/keys/${key}`]) {
    expect(codeOf(await get(path)), path).toBe("sealed");
  }
  expect(codeOf(await get("/readyz"))).toBe("sealed");
  expect((await get("/livez")).status).toBe(200);
  expect(await home.sql("select from keys where purpose <> 'service'")).toEqual([]);
});

test("the PIN opens it: it makes keys and signs, and who unsealed it is on record", async () => {
  vault = await startVault(home);
  const sealed = (await status()).sealed!;
  expect(await unseal()).toMatchObject({ status: 200, body: { sealed: false } });
  const made = await create();
  expect(made.status).toBe(200);
  expect((await sign(made.body.key_id as string)).status).toBe(200);
  expect(await status()).toMatchObject({ sealed: null, token: { answers: true, keks: ["kek-1"] } });
  expect((await get("/readyz")).status).toBe(200);
  expect(await rows("unseal")).toEqual([
    {
      caller: "admin",
      role: "admin",
      outcome: "granted",
      detail: { sealed_since: sealed.since, reason: "no_pin_file" },
    },
  ]);
  expect((await vault.verifyAudit()).intact).toBe(true);
  expect(codeOf(await get("/v1/unseal"))).toBe("policy_violation");
});

test("an admin seals it: nothing is signed any more, and unsealed it signs with the keys it had", async () => {
  vault = await startVault(home);
  await unseal();
  const keyId = (await create()).body.key_id as string;
  await sign(keyId);
  const flight = Array.from({ length: 20 }, () => sign(keyId));
  expect(await post("/v1/seal")).toMatchObject({
    status: 200,
    body: { sealed: true, reason: "asked", by: "admin/admin" },
  });
  for (const { status, body } of await Promise.all(flight)) {
    if (status !== 200) expect(body.error?.code).toBe("sealed");
  }
  expect(codeOf(await sign(keyId))).toBe("sealed");
  expect(codeOf(await create())).toBe("sealed");
  const [last] = await home.sql("select statement from audit order by seq desc limit 1");
  expect(last, "no record follows the seal's").toEqual({ statement: "seal" });
  expect(await post("/v1/seal")).toMatchObject({ status: 200, body: { by: "admin/admin" } });

  expect((await unseal()).status).toBe(200);
  expect((await sign(keyId)).status).toBe(200);
  expect(await rows("seal")).toEqual([{ caller: "admin", role: "admin", outcome: "granted", detail: {} }]);
  expect(await rows("unseal")).toHaveLength(2);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("sealing overwrites the data keys that are kept, even one that is still in use", async () => {
  vault = await startVault(home);
  await unseal();
  const { body } = await create();
  await sign(body.key_id as string);
  const { dataKeys, store } = vault.vault;
  const key = await store.find(body.key_id as string);
  const kept = await dataKeys.use(key!.dataKey, (dataKey) => dataKey);
  expect(kept).not.toEqual(Buffer.alloc(32));
  expect((await post("/v1/seal")).status).toBe(200);
  expect(kept).toEqual(Buffer.alloc(32));
});

test("only admins seal and unseal", async () => {
  vault = await startVault(home);
  const auditor = await issueIdentity(home, { kind: "client", role: "auditor", name: "eye" });
  for (const client of [api, auditor]) {
    for (const path of ["/v1/unseal", "/v1/seal"]) {
      expect(codeOf(await post(path, {}, client))).toBe("forbidden");
    }
    expect(codeOf(await get("/v1/unseal", client))).toBe("forbidden");
  }
  expect((await get("/v1/status", auditor)).status).toBe(200);
  expect(codeOf(await get("/v1/status", api))).toBe("forbidden");
  expect((await status()).sealed).not.toBeNull();
});

test("a wrong PIN is called so, makes its caller wait and nobody else, and is on record once the vault is open", async () => {
  vault = await startVault(home);
  expect(await unseal(Buffer.alloc(64, 0x30))).toMatchObject({
    status: 403,
    body: { error: { code: "wrong_pin", message: expect.stringContaining("PIN_INCORRECT") } },
  });
  expect(await tryAtOnce()).toMatchObject({ refused: "rate_limited", retryAfterSeconds: 1 });
  const other = await issueIdentity(home, { kind: "client", role: "admin", name: "second" });
  expect(await unseal(Buffer.alloc(31, 0x30), other)).toMatchObject({
    status: 403,
    body: { error: { code: "wrong_pin", message: expect.stringContaining("at least 32") } },
  });
  await expect.poll(async () => (await unseal()).status, { timeout: 10_000, interval: 300 }).toBe(200);
  expect((await rows("unseal")).map(({ caller, outcome }) => [caller, outcome])).toEqual([
    ["admin", "wrong_pin"],
    ["second", "wrong_pin"],
    ["admin", "granted"],
  ]);
  expect((await rows("unseal"))[0]?.detail.happened_at).toMatch(/^\d{4}-/);
});

test("each further wrong PIN doubles the wait", async () => {
  vault = await startVault(home);
  await unseal(Buffer.alloc(64, 0x30));
  await expect
    .poll(async () => (await unseal(Buffer.alloc(64, 0x31))).status, { timeout: 10_000, interval: 200 })
    .toBe(403);
  expect(await tryAtOnce()).toMatchObject({ refused: "rate_limited", retryAfterSeconds: 2 });
});

test("what was encrypted for one start of the token's process opens no other, nor the same one twice", async () => {
  vault = await startVault(home);
  const first = await freshOffer();
  const box = encryptPin(pin, Buffer.from(first, "base64")).toString("base64");
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(offer, { timeout: 10_000 }).not.toBe(first);
  const second = await freshOffer();
  expect(second).not.toBe(first);
  expect(codeOf(await post("/v1/unseal", { offer: first, box }))).toBe("stale_offer");
  expect(codeOf(await post("/v1/unseal", { offer: second, box }))).toBe("stale_offer");
  expect((await status()).sealed).not.toBeNull();

  const other = await issueIdentity(home, { kind: "client", role: "admin", name: "second" });
  const third = await freshOffer();
  const good = encryptPin(pin, Buffer.from(third, "base64")).toString("base64");
  expect((await post("/v1/unseal", { offer: third, box: good }, other)).status).toBe(200);
  await post("/v1/seal");
  await freshOffer();
  expect(codeOf(await post("/v1/unseal", { offer: third, box: good }, other))).toBe("stale_offer");
});

test("malformed requests to unseal are refused", async () => {
  vault = await startVault(home);
  const asked = await freshOffer();
  const box = encryptPin(pin, Buffer.from(asked, "base64")).toString("base64");
  const bodies = [
    {},
    { offer: asked },
    { offer: asked, box: `${box}A` },
    { offer: asked, box, pin: "1" },
    { box },
  ];
  for (const body of bodies) expect(codeOf(await post("/v1/unseal", body))).toBe("invalid_request");
});

test("when the token's process dies and there is no PIN file, it is sealed again and says so", async () => {
  vault = await startVault(home);
  await unseal();
  const keyId = (await create()).body.key_id as string;
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(async () => (await status()).sealed?.reason, { timeout: 10_000 }).toBe("process_ended");
  expect(codeOf(await sign(keyId))).toBe("sealed");
  expect((await unseal()).status).toBe(200);
  expect((await sign(keyId)).status).toBe(200);
  expect((await rows("unseal")).at(-1)?.detail.reason).toBe("process_ended");
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("with a PIN file it opens by itself, also after its process died, but stays sealed when an admin sealed it", async () => {
  await writeFile(home.config.token.pinFile, pin, { mode: 0o600 });
  vault = await startVault(home);
  expect((await status()).sealed).toBeNull();
  const keyId = (await create()).body.key_id as string;
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(async () => (await sign(keyId)).status, { timeout: 10_000 }).toBe(200);
  expect((await status()).sealed).toBeNull();

  await post("/v1/seal");
  await freshOffer();
  process.kill(vault.token.pid()!, "SIGKILL");
  await expect.poll(() => vault.token.pid(), { timeout: 10_000 }).toBeDefined();
  await freshOffer();
  expect((await status()).sealed).toMatchObject({ reason: "asked", by: "admin/admin" });
  await rm(home.config.token.pinFile);
});

test("without a database it is sealed all the same, and that is on record when it is open again", async () => {
  vault = await startVault(home);
  await unseal();
  await home.sql("alter table audit add constraint full_disk check (false) not VALID");
  expect((await post("/v1/seal")).status).toBe(200);
  expect((await status()).sealed).toMatchObject({ reason: "asked" });
  expect(await rows("seal")).toEqual([]);
  expect(codeOf(await unseal()), "who cannot be recorded does not unseal").toBe("audit_unavailable");
  expect((await status()).sealed).toMatchObject({ reason: "asked" });
  await home.sql("alter table audit drop constraint full_disk");
  expect((await unseal()).status).toBe(200);
  expect(await rows("seal")).toMatchObject([{ caller: "admin", outcome: "granted" }]);
});

test("a vault whose parts do not belong together is not opened by the PIN, and stays sealed", async () => {
  vault = await startVault(home);
  await home.sql(
    "alter table audit disable trigger audit_append_only; update audit set caller = 'mallory' where seq = (select max(seq) from audit)",
  );
  expect(await unseal()).toMatchObject({
    status: 503,
    body: { error: { code: "unavailable", message: expect.stringContaining("does not verify") } },
  });
  expect((await status()).sealed).toMatchObject({ reason: "chain_broken" });
  expect(codeOf(await create())).toBe("sealed");
});
