import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let root: string;
let agent: string;
let agentKey: { ed25519: string; ml_dsa_65: string };

beforeAll(async () => {
  vault = await startVault();
  root = (await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" })).key_id;
  const made = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" });
  agent = made.key_id;
  agentKey = made.public_key;
});
afterAll(() => vault.close());

const get = (path: string) => vault.get(path, vault.api);
const post = (path: string, body: unknown, headers?: Record<string, string>) =>
  vault.post(path, body, vault.api, headers);
const challenge = () => vault.challenge();
const delegation = () => ({
  tenant: "acc-1",
  certificate: {
    cert_id: `cert-${randomUUID()}`,
    version: 1,
    issuer_id: root,
    subject_id: agent,
    subject_pub_key: agentKey,
    scope: ["data:read"],
    constraints: [{ type: "geo_circle", lat: 1.5, lon: 2, radius_m: 10.25 }],
    issued_at: vault.now(),
    expires_at: vault.now() + 60,
  },
  approval: { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1" },
});

test("HTTP calls sign the same statements as direct calls of the operations, including fractions in constraints", async () => {
  expect(await post(`/v1/keys/${agent}/sign/challenge`, challenge())).toMatchObject({
    status: 200,
    body: { agent_id: agent },
  });
  const body = delegation();
  const signed = await post(`/v1/keys/${root}/sign/delegation`, body);
  expect(signed).toMatchObject({ status: 200, body: body.certificate });
  expect(signed.body).toHaveProperty("signature.ml_dsa_65");
});

test("POST /v1/keys requires an idempotency key", async () => {
  const body = { tenant: "acc-1", purpose: "agent", label: "new", ceiling: ["data:read"] };
  expect(await post("/v1/keys", body)).toMatchObject({
    status: 400,
    body: { error: { code: "invalid_request" } },
  });
  const made = await post("/v1/keys", body, { "idempotency-key": "one-name" });
  expect(made.status).toBe(200);
  expect(await post("/v1/keys", body, { "idempotency-key": "one-name" })).toEqual(made);
  expect(await post("/v1/keys", { ...body, label: "x" }, { "idempotency-key": "one-name" })).toMatchObject({
    status: 409,
    body: { error: { code: "idempotency_conflict", status: 409 } },
  });
});

test("POST /v1/keys accepts international names but no control characters", async () => {
  const body = { tenant: "acc-1", purpose: "agent", label: "Zoë’s 👩‍💻 agent", ceiling: ["custom:grün"] };
  expect((await post("/v1/keys", body, { "idempotency-key": "a-human-name" })).status).toBe(200);
  for (const odd of [
    { label: "a\nb" },
    { label: "" },
    { label: "\u0000" },
    { ceiling: ["custom:\u0000"] },
    { label: "x".repeat(257) },
  ]) {
    expect((await post("/v1/keys", { ...body, ...odd }, { "idempotency-key": "an-odd-name" })).status).toBe(
      400,
    );
  }
  const approved = {
    ...delegation(),
    approval: { ...delegation().approval, approved_by: "o'neil+bank@example.com" },
  };
  expect((await post(`/v1/keys/${root}/sign/delegation`, approved)).status).toBe(200);
});

test("GET /v1/keys/:id returns only a key's public parts, and only if the call names the key's tenant", async () => {
  const { body, status } = await get(`/v1/keys/${agent}?tenant=acc-1`);
  expect(status).toBe(200);
  expect(Object.keys(body).sort()).toEqual([
    "attestation",
    "ceiling",
    "created_at",
    "destroy_at",
    "key_id",
    "label",
    "pending",
    "public_key",
    "purpose",
    "state",
    "tenant",
    "tenant_state",
  ]);
  expect(await get(`/v1/keys/${agent}?tenant=acc-2`)).toMatchObject({
    status: 404,
    body: { error: { code: "key_not_found" } },
  });
  expect(await get(`/v1/keys/${agent}`)).toMatchObject({ status: 400 });
});

test("GET /v1/keys lists all keys to an admin in pages, each key once", async () => {
  const seen: string[] = [];
  for (let after = ""; ; ) {
    const { body } = await vault.get(`/v1/keys?limit=2${after}`);
    seen.push(...(body.keys as { key_id: string }[]).map(({ key_id }) => key_id));
    if (body.next === null) break;
    after = `&after=${String(body.next)}`;
  }
  const rows = await vault.home.sql<{ key_id: string }>("select key_id from keys order by key_id");
  expect(seen).toEqual(rows.map(({ key_id }) => key_id));
  const all = (await vault.get(`/v1/keys?limit=${rows.length}`)).body;
  expect(
    { keys: (all.keys as unknown[]).length, next: all.next },
    "the last page, though it is full",
  ).toEqual({
    keys: rows.length,
    next: null,
  });
  expect((await vault.get("/v1/keys?limit=501")).status).toBe(400);
  expect((await vault.get("/v1/keys?tenant=none")).body).toEqual({ keys: [], next: null });
});

test("POST /v1/keys/:id/disable requires the tenant from the API but not from an admin", async () => {
  const { key_id } = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "off" });
  expect((await post(`/v1/keys/${key_id}/disable`, {})).status).toBe(400);
  expect((await post(`/v1/keys/${key_id}/disable`, { tenant: "acc-2" })).status).toBe(404);
  expect(await vault.post(`/v1/keys/${key_id}/disable`, {}, vault.admin)).toEqual({
    status: 200,
    body: { key_id, state: "disabled" },
  });
  expect(await post(`/v1/keys/${key_id}/sign/challenge`, challenge())).toMatchObject({
    status: 409,
    body: { error: { code: "key_disabled" } },
  });
});

test("the sign calls refuse unknown fields and raw data, so nobody can choose the signed bytes", async () => {
  const path = `/v1/keys/${agent}/sign/challenge`;
  const raw = Buffer.from('{"cert_id":"forged"}').toString("base64");
  const bodies: unknown[] = [
    { ...challenge(), bytes: raw },
    { ...challenge(), challenge: raw },
    { ...challenge(), message: "x" },
    { tenant: "acc-1", bytes: raw },
    { ...delegation() },
  ];
  for (const body of bodies) {
    expect(await post(path, body)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request" } },
    });
  }
  const certificate = { ...delegation().certificate };
  const path2 = `/v1/keys/${root}/sign/delegation`;
  for (const extra of [
    { issuer_pub_key: agentKey },
    { signature: { ed25519: "", ml_dsa_65: "" } },
    { prefix: "x" },
  ]) {
    expect((await post(path2, { ...delegation(), certificate: { ...certificate, ...extra } })).status).toBe(
      400,
    );
  }
});

test.each<[string, string | Buffer]>([
  ["no content", ""],
  ["invalid JSON", "{"],
  ["two documents", "{}{}"],
  ["a duplicate key", '{"tenant":"acc-1","tenant":"acc-2"}'],
  ["bytes that are not UTF-8", Buffer.from([0x7b, 0xff, 0x7d])],
  ["a byte-order mark", "\ufeff{}"],
  ["excessive nesting", "[".repeat(5000) + "]".repeat(5000)],
  ["an array", "[]"],
  ["null", "null"],
  ["a string", '"x"'],
  ["a fraction as a time", JSON.stringify({ tenant: "acc-1", challenge: "", challenge_at: 1.5 })],
  ["a string as a time", JSON.stringify({ tenant: "acc-1", challenge: "", challenge_at: "1" })],
  ["an unsafe integer", '{"tenant":"acc-1","challenge":"","challenge_at":9007199254740993}'],
  ["a tenant with a line break", JSON.stringify({ tenant: "a\nb", challenge: "", challenge_at: 1 })],
  ["the vault's own tenant", JSON.stringify({ tenant: "vault", challenge: "", challenge_at: 1 })],
])(
  "a sign call rejects a body with %s as invalid_request, records the attempt, and does not repeat the body",
  async (_, body) => {
    const before = vault.vault.journal.head().seq;
    const answer = await post(`/v1/keys/${agent}/sign/challenge`, body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: "invalid_request", status: 400 } } });
    expect(vault.vault.journal.head().seq).toBe(before + 1);
  },
);

test("a sign call accepts bodies up to 128 KiB, with or without a content length", async () => {
  const path = `/v1/keys/${agent}/sign/challenge`;
  const fill = (bytes: number) => {
    const text = JSON.stringify({ ...challenge(), pad: "" });
    return text.replace('"pad":""', `"pad":"${"x".repeat(bytes - text.length)}"`);
  };
  const fits = await post(path, fill(131_072));
  expect(fits.body.error).toMatchObject({ code: "invalid_request" });
  expect(JSON.stringify(fits.body)).toMatch(/pad|unrecognized/i);
  expect(JSON.stringify((await post(path, fill(131_073))).body)).toMatch(/131072 bytes/);
  const chunked = await post(path, fill(131_073), { "transfer-encoding": "chunked" });
  expect(JSON.stringify(chunked.body)).toMatch(/131072 bytes/);
});

test("a sign call accepts only uncompressed bodies that are declared as JSON", async () => {
  const path = `/v1/keys/${agent}/sign/challenge`;
  for (const headers of [{ "content-type": "text/plain" }, { "content-encoding": "gzip" }] as Record<
    string,
    string
  >[]) {
    expect((await post(path, challenge(), headers)).status).toBe(400);
  }
});

test("a sign call gives the same response for missing keys, malformed key ids and unusual paths", async () => {
  for (const id of ["0".repeat(32), "0".repeat(31), "A".repeat(32), "..%2f..", "%00"]) {
    expect(await post(`/v1/keys/${id}/sign/challenge`, challenge()), id).toMatchObject({ status: 404 });
  }
});

test("a sign call signs a repeated request again and writes a second record", async () => {
  const body = challenge();
  const before = vault.vault.journal.head().seq;
  await post(`/v1/keys/${agent}/sign/challenge`, body);
  await post(`/v1/keys/${agent}/sign/challenge`, body);
  const rows = await vault.home.sql<{ digest: Buffer }>("select digest from audit where seq > $1", [before]);
  expect(rows).toHaveLength(2);
  expect(rows[0]?.digest).toEqual(rows[1]?.digest);
});

test("GET /v1/status shows token, keys and audit head", async () => {
  const { body } = await vault.get("/v1/status");
  expect(body).toMatchObject({
    token: { answers: true, keks: ["kek-1"], model: "SoftHSM v2" },
    keys: { disabled: expect.any(Number) },
  });
  expect((body.audit as { records: number }).records).toBe(vault.vault.journal.head().seq);
});
