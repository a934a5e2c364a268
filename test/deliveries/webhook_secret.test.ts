import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { webhookNextSecretContext, webhookSecretContext } from "../../src/events/secrets.ts";
import { type Person, runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();

const path = (connectionId: string) => `/v1/service/connections/${connectionId}/rotate-webhook-secret`;
const rotate = ({ client }: Person, connectionId: string) => client.post(path(connectionId));
const promote = ({ client }: Person, connectionId: string, body?: unknown) =>
  client.post(`${path(connectionId)}/promote`, body);

async function registered() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  return { person, platform, id: platform.connectionId, secret: platform.answer.body.webhook_signing_secret };
}
const rowOf = async (id: string) => {
  const row = await api.db("connections").where({ connection_id: id }).first();
  if (row === undefined) throw new Error("no such connection");
  return row;
};
const currentSecret = async (id: string) =>
  api.secretBox.unbox((await rowOf(id)).webhook_secret_sealed!, webhookSecretContext(id));

describe("the rotation of a webhook secret", () => {
  test("returns the next secret, which becomes current at its promotion", async () => {
    const { person, id, secret, platform } = await registered();
    const rotated = await rotate(person, id);
    expect([rotated.status, rotated.body]).toEqual([
      200,
      { connection_id: id, webhook_signing_secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) },
    ]);
    expect(await currentSecret(id)).toBe(secret);
    const promoted = await promote(person, id, { grace_seconds: 60 });
    expect([promoted.status, promoted.body]).toEqual([
      200,
      {
        connection_id: id,
        former_expires_at: new Date(api.clock.now().getTime() + 60_000).toISOString(),
        api_key_prefix: platform.answer.body.api_key_prefix,
      },
    ]);
    expect(await currentSecret(id)).toBe(rotated.body.webhook_signing_secret);
  });

  test("lets the former secret sign for a day by default, and for 0 to 7 days on request", async () => {
    const { person, id } = await registered();
    const graceOf = async (body?: unknown) => {
      await rotate(person, id);
      const promoted = await promote(person, id, body);
      const until = promoted.body.former_expires_at;
      if (until === undefined) return errorCode(promoted);
      return until === null ? null : (Date.parse(String(until)) - api.clock.now().getTime()) / 1000;
    };
    expect(await graceOf()).toBe(86_400);
    expect(await graceOf({})).toBe(86_400);
    expect(await graceOf({ grace_seconds: 0 })).toBeNull();
    expect((await rowOf(id)).webhook_former_secret_sealed).toBeNull();
    expect(await graceOf({ grace_seconds: 604_800 })).toBe(604_800);
    for (const grace_seconds of [604_801, -1, 1.5, "60", null]) {
      expect(await graceOf({ grace_seconds })).toBe("invalid_request");
    }
  });

  test("rejects a promotion without a next secret, and a second promotion", async () => {
    const { person, id } = await registered();
    const refused = async () => {
      const answer = await promote(person, id);
      return [answer.status, errorCode(answer)];
    };
    expect(await refused()).toEqual([409, "no_secret_rotation"]);
    await rotate(person, id);
    expect((await promote(person, id)).status).toBe(200);
    expect(await refused()).toEqual([409, "no_secret_rotation"]);
  });

  test("accepts one of several concurrent promotions", async () => {
    const { person, id } = await registered();
    await rotate(person, id);
    const answers = await Promise.all(Array.from({ length: 8 }, () => promote(person, id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
  });

  test("returns the first answers again for the same idempotency key", async () => {
    const { person, id } = await registered();
    const once = (each: string) =>
      person.client.post(each, undefined, { headers: { "idempotency-key": "k1" } });
    const [first, again] = [await once(path(id)), await once(path(id))];
    expect(again.body).toEqual(first.body);
    const promotions = [await once(`${path(id)}/promote`), await once(`${path(id)}/promote`)];
    expect(promotions.map(({ status }) => status)).toEqual([200, 200]);
    expect(await currentSecret(id)).toBe(first.body.webhook_signing_secret);
  });

  test("encrypts each secret for its database column, and reveals no secret in the platform's details or in logs", async () => {
    const { person, platform, id } = await registered();
    const next = String((await rotate(person, id)).body.webhook_signing_secret);
    const row = await rowOf(id);
    expect(api.secretBox.unbox(row.webhook_next_secret_sealed as Buffer, webhookNextSecretContext(id))).toBe(
      next,
    );
    expect(() =>
      api.secretBox.unbox(row.webhook_next_secret_sealed as Buffer, webhookSecretContext(id)),
    ).toThrow();
    const after = String((await rotate(person, id)).body.webhook_signing_secret);
    await promote(person, id);
    const { rows } = await api.db.raw("select c::text from connections c where connection_id = ?", [id]);
    const shown = await person.client.get(`/v1/service/platforms/${platform.platformId}`);
    for (const secret of [next, after, platform.answer.body.webhook_signing_secret]) {
      const hex = Buffer.from(String(secret)).toString("hex");
      for (const text of [JSON.stringify(rows), shown.text, api.lines.join("")]) {
        expect(text.includes(String(secret)) || text.includes(hex)).toBe(false);
      }
    }
  });

  test("requires a session, its CSRF header, and the person's own existing connection", async () => {
    const { person, id, platform } = await registered();
    const { client } = await api.person();
    for (const each of [path(id), `${path(id)}/promote`]) {
      expect(errorCode(await api.client().post(each))).toBe("auth_required");
      const byKey = { headers: { "x-service-api-key": platform.apiKey } };
      expect(errorCode(await api.client().post(each, undefined, byKey))).toBe("auth_required");
      expect(errorCode(await person.client.post(each, undefined, { csrf: false }))).toBe("csrf_failed");
      const foreign = await client.post(each);
      expect([foreign.status, errorCode(foreign)]).toEqual([404, "not_found"]);
      for (const stranger of ["nonsense", randomUUID()]) {
        expect(errorCode(await person.client.post(each.replace(id, stranger)))).toBe("not_found");
      }
    }
    expect((await rowOf(id)).webhook_next_secret_sealed).toBeNull();
    await person.client.call("DELETE", `/v1/service/connections/${id}`);
    expect(errorCode(await rotate(person, id))).toBe("not_found");
    expect(errorCode(await promote(person, id))).toBe("not_found");
  });
});

describe("the Secret of a declared platform", () => {
  async function declared() {
    const person = await api.person();
    const objectPath = `/internal/v1/platforms/c1.${randomUUID()}`;
    const put = () =>
      api.operator("PUT", objectPath, {
        account_email: person.email,
        name: "Shop",
        surface_type: "agentic_api",
        default_allowed_scopes: ["data:read"],
      });
    const acknowledge = (prefix: unknown) =>
      api.operator("POST", `${objectPath}/credentials/acknowledge`, { api_key_prefix: prefix });
    const first = await put();
    await acknowledge(first.body.api_key_prefix);
    const credentials = first.body.credentials as Record<string, string>;
    return { person, put, acknowledge, id: String(first.body.connection_id), credentials };
  }
  const keyWorks = async (id: string, key: string | undefined) =>
    (
      await api.client().get(`/v1/service/connections/${id}/agents`, {
        headers: { "x-service-api-key": key ?? "" },
      })
    ).status === 200;

  test("does not change when the next secret is created", async () => {
    const { person, put, id } = await declared();
    await rotate(person, id);
    expect((await put()).body.credentials).toBeNull();
  });

  test("receives the promoted secret with a new API key, while the former key works for a day", async () => {
    const { person, put, acknowledge, id, credentials } = await declared();
    const next = (await rotate(person, id)).body.webhook_signing_secret;
    const promoted = await promote(person, id, { grace_seconds: 0 });
    const { body } = await put();
    const fresh = body.credentials as Record<string, string>;
    expect(fresh).toEqual({
      api_key: expect.not.stringMatching(`^${credentials.api_key}$`),
      signing_secret: credentials.signing_secret,
      webhook_signing_secret: next,
    });
    expect(promoted.body.api_key_prefix).toBe(body.api_key_prefix);
    expect(fresh.api_key?.startsWith(String(body.api_key_prefix))).toBe(true);
    await acknowledge(body.api_key_prefix);
    expect((await put()).body.credentials).toBeNull();
    expect(await keyWorks(id, fresh.api_key)).toBe(true);
    api.clock.advance(86_399);
    expect(await keyWorks(id, credentials.api_key)).toBe(true);
    api.clock.advance(1);
    expect(await keyWorks(id, credentials.api_key)).toBe(false);
    const told = (await api.events(id)).filter(({ event }) => event === "connection.key_rotated");
    expect(told).toHaveLength(1);
  });

  test("does not change when a promotion is rejected", async () => {
    const { person, put, id, credentials } = await declared();
    expect(errorCode(await promote(person, id))).toBe("no_secret_rotation");
    expect((await put()).body.credentials).toBeNull();
    expect(await keyWorks(id, credentials.api_key)).toBe(true);
  });
});
