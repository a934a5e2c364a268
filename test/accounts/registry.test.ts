import { afterAll, beforeAll, expect, test } from "vitest";
import { keyId } from "../../src/protocol/keys/hybrid.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";

let api: TestApi;
let person: Person;
beforeAll(async () => {
  api = await startApi();
  person = await api.person();
});
afterAll(() => api.stop());

const read = (id: string, headers: Record<string, string> = {}) =>
  api.client().get(`/v1/registry/principals/${id}`, { headers });

test("anyone can read a person's root key, whose id is the key's fingerprint", async () => {
  const { status, body, headers } = await read(person.humanId);
  expect(status).toBe(200);
  expect(body).toEqual({
    human_id: person.humanId,
    public_key: { ed25519: expect.any(String), ml_dsa_65: expect.any(String) },
    rotations: [],
    anchor: null,
    updated_at: expect.any(Number),
  });
  expect(keyId(body.public_key as { ed25519: string; ml_dsa_65: string })).toBe(person.humanId);
  expect(headers.get("cache-control")).toBe("public, max-age=60");
});

test("a record contains the time of its last change in Unix seconds, and no address", async () => {
  const { body, text } = await read(person.humanId);
  const account = await api.db("accounts").where({ human_id: person.humanId }).first();
  expect(body.updated_at).toBe(Math.floor(account!.created_at.getTime() / 1000));
  expect(text).not.toContain(account!.email);
});

test("an unchanged record is not sent again", async () => {
  const first = await read(person.humanId);
  const etag = first.headers.get("etag") ?? "";
  expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
  for (const named of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
    const again = await read(person.humanId, { "if-none-match": named });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", etag]);
  }
  expect((await read(person.humanId, { "if-none-match": '"other"' })).status).toBe(200);
});

test("every id without a root key gets the same response", async () => {
  const near = person.humanId.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
  const ids = [
    "0".repeat(32),
    near,
    person.humanId.toUpperCase(),
    "nobody",
    "%00",
    "a".repeat(3000),
    "%E2%82%AC",
  ];
  for (const id of ids) {
    const { status, text } = await read(id);
    expect([id, status, text]).toEqual([id, 404, "{}"]);
  }
});
