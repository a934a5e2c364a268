import { describe, expect, test } from "vitest";
import { createIdempotency } from "../../src/http/idempotency.ts";
import { schemaOf } from "../../src/http/openapi/schema.ts";
import { type Person, runningApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";
import { errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import { declaredRoutes } from "./walk/documented.ts";

const api = runningApi();
const keyed = { headers: { "idempotency-key": "k-1" } };
const notKept = { status: 409, body: { error: { code: "answer_not_kept" } } };

function rotate(client: HttpClient, { connectionId }: TestPlatform) {
  return client.post(`/v1/service/connections/${connectionId}/rotate-key`, {}, keyed);
}

/** Returns an additional session of the same person. */
async function elsewhere({ email }: Person): Promise<HttpClient> {
  const client = api.client();
  await client.signIn(email);
  return client;
}

async function rotated() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const answer = await rotate(person.client, platform);
  expect(answer.status).toBe(200);
  return { person, platform, answer };
}

describe("a kept answer with a secret", () => {
  test("stays available to the session that received it, even after the session is refreshed", async () => {
    const { person, platform, answer } = await rotated();
    expect((await person.client.post("/v1/auth/refresh")).status).toBe(200);
    const again = await rotate(person.client, platform);
    expect(again).toMatchObject({ status: 200, text: answer.text });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("stays hidden from other sessions of the person, and the API key is not rotated again", async () => {
    const { person, platform, answer } = await rotated();
    const stolen = await rotate(await elsewhere(person), platform);
    expect(stolen).toMatchObject(notKept);
    expect(stolen.text).not.toContain(String(answer.body.api_key));
    expect((await rotate(person.client, platform)).text).toBe(answer.text);
  });

  test("can be repeated for exactly ten minutes, and afterwards a repetition still does not run the call", async () => {
    const { person, platform, answer } = await rotated();
    api.clock.advance(599.999);
    expect((await rotate(person.client, platform)).text).toBe(answer.text);
    api.clock.advance(0.001);
    expect(await rotate(person.client, platform)).toMatchObject(notKept);
    const keys = await api.db("api_keys").where({ connection_id: platform.connectionId });
    expect(keys).toHaveLength(2);
  });

  test("disappears from the database after ten minutes, and a repetition then gets the same error as before", async () => {
    const { person, platform } = await rotated();
    const answers = () =>
      api.db("idempotency_keys").where({ account_id: person.accountId }).pluck("answer_sealed");
    api.clock.advance(599.999);
    await createIdempotency(api).forgetSecrets(api.clock.now());
    expect((await answers()).map((sealed) => sealed?.length)).not.toContain(0);
    api.clock.advance(0.001);
    await createIdempotency(api).forgetSecrets(api.clock.now());
    expect((await answers()).map((sealed) => sealed?.length)).toEqual([0]);
    expect(await rotate(person.client, platform)).toMatchObject(notKept);
  });

  test("causes a conflict if the repetition has a different body", async () => {
    const { person, platform } = await rotated();
    const path = `/v1/service/connections/${platform.connectionId}/rotate-key`;
    const other = await person.client.post(path, { grace_seconds: 1 }, keyed);
    expect(errorCode(other)).toBe("idempotency_conflict");
  });

  test("has the limit of ten minutes in every call that accepts an idempotency key and returns a secret", () => {
    const secret = /"(api_key|signing_secret|webhook_signing_secret)":/;
    const shows = declaredRoutes.filter(
      ({ idempotent, answer }) =>
        idempotent === true && answer && secret.test(JSON.stringify(schemaOf(answer.schema, "output"))),
    );
    expect(shows.map(({ id }) => id).sort()).toEqual([
      "create_api_key",
      "register_personal_platform",
      "register_platform",
      "rotate_api_key",
      "rotate_customer_key",
      "rotate_signing_secret",
      "rotate_webhook_secret",
    ]);
    expect(shows.filter(({ showsSecret }) => showsSecret !== true)).toEqual([]);
  });
});
