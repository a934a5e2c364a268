import { describe, expect, test } from "vitest";
import { signingSecretContext, webhookSecretContext } from "../../src/events/secrets.ts";
import { checkCallbackUrl } from "../../src/platforms/change_platform.ts";
import { WILDCARDS } from "../../src/protocol/documents/scope_vocabulary.ts";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";
import { runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();

const path = "/v1/service/platforms/personal";
const wish = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };

describe("registering a personal platform", () => {
  test("returns the platform object as specified", async () => {
    const person = await api.person();
    const { status, body } = await person.client.post(path, {
      ...wish,
      description: "sells",
      callback_url: null,
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      api_key: expect.stringMatching(/^dpz_\w{8}_\w{43}_\w{6}$/),
      api_key_prefix: String(body.api_key).slice(0, 12),
      connection_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      description: "sells",
      created_at: api.clock.now().toISOString(),
      expires_at: new Date(api.clock.now().getTime() + 365 * 86_400_000).toISOString(),
      name: "Shop",
      platform_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      publish_state: "draft",
      published_domain: null,
      signing_secret: expect.stringMatching(/^dps_[\w-]{43}$/),
      surface_type: "agentic_api",
      webhook_signing_secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      default_allowed_scopes: ["data:read"],
      callback_url: null,
      callback_state: "active",
      verifier_id: body.connection_id,
      registry_answers: false,
    });
  });

  test("sets an empty description if none is given", async () => {
    const { answer } = await registerPlatform(await api.person());
    expect(answer.body.description).toBe("");
  });

  test("stores no readable secret: only the key's SHA-256, and the other secrets encrypted for their rows", async () => {
    const { platformId, connectionId, answer } = await registerPlatform(await api.person());
    const platform = await api.db("platforms").where({ platform_id: platformId }).first();
    const connection = await api.db("connections").where({ connection_id: connectionId }).first();
    const key = await api.db("api_keys").where({ connection_id: connectionId }).first();
    const { api_key, signing_secret, webhook_signing_secret } = answer.body as Record<string, string>;
    expect(api.secretBox.unbox(platform!.signing_secret_sealed, signingSecretContext(platformId))).toBe(
      signing_secret,
    );
    expect(api.secretBox.unbox(connection!.webhook_secret_sealed!, webhookSecretContext(connectionId))).toBe(
      webhook_signing_secret,
    );
    expect(connection!.undelivered_sealed).toBeNull();
    const stored = JSON.stringify([platform, connection, key], (_, value: unknown) =>
      value instanceof Buffer || (value as { type?: string } | null)?.type === "Buffer"
        ? Buffer.from(value as Buffer).toString("latin1")
        : value,
    );
    for (const secret of [api_key!, signing_secret!, webhook_signing_secret!]) {
      expect(stored).not.toContain(secret);
    }
    expect(api.lines.join()).not.toContain(String(api_key).slice(13, 50));
  });

  test("emits connection.created once, with the secrets encrypted outside the payload", async () => {
    const person = await api.person();
    const { platformId, connectionId, answer } = await registerPlatform(person, {
      callback_url: "https://hooks.example.com/in",
    });
    expect(await api.events(connectionId)).toEqual([
      {
        event: "connection.created",
        connection_id: connectionId,
        platform_id: platformId,
        org_id: person.accountId,
        org_name: "Ada Lovelace",
        allowed_scopes: ["data:read", "data:share", "payments:send", "custom:orders:refund"],
        callback_url: "https://hooks.example.com/in",
      },
    ]);
    const payloads = JSON.stringify(await api.db("outbox").where({ aggregateid: connectionId }));
    expect(payloads).not.toContain(answer.body.api_key);
    expect(payloads).not.toContain(answer.body.webhook_signing_secret);
  });

  test("accepts every wildcard, custom scopes and 64 scopes, and keeps them in order without duplicates", async () => {
    const scopes = [...WILDCARDS.keys()];
    const custom = Array.from({ length: 64 - scopes.length }, (_, n) => `custom:area:${n}`);
    const { answer } = await registerPlatform(await api.person(), {
      default_allowed_scopes: [...scopes, ...custom],
    });
    expect(answer.body.default_allowed_scopes).toEqual([...scopes, ...custom]);
    const repeated = await registerPlatform(await api.person(), {
      default_allowed_scopes: ["data:read", "custom:a:b", "data:read"],
    });
    expect(repeated.answer.body.default_allowed_scopes).toEqual(["data:read", "custom:a:b"]);
  });

  test("names every invalid scope in the error", async () => {
    const { client } = await api.person();
    const bad = [
      "data:everything",
      "custom:",
      "urn:x",
      "x-shop:read",
      "custom:a\nb",
      "custom:refund",
      "custom:*",
      "custom:orders:re\u200bfund",
      `custom:${"a".repeat(250)}`,
      "*",
    ];
    const { status, body } = await client.post(path, {
      ...wish,
      default_allowed_scopes: ["data:read", ...bad],
    });
    expect({ status, code: errorCode({ body }) }).toEqual({ status: 400, code: "invalid_scopes" });
    const { message } = body.error as { message: string };
    for (const scope of bad) expect(message).toContain(JSON.stringify(scope.slice(0, 80)).slice(0, -1));
    expect(message).not.toContain("data:read");
  });

  test("refuses custom scopes that end with a wildcard, which no call can require", async () => {
    const { client } = await api.person();
    const scopes = ["data:*", "custom:orders:refund", "custom:orders:*", "custom:a:b:*"];
    const refused = await client.post(path, { ...wish, default_allowed_scopes: scopes });
    expect([refused.status, (refused.body.error as { message: string }).message]).toEqual([
      400,
      'The * of a custom scope grants nothing; list each custom scope: "custom:orders:*", "custom:a:b:*"',
    ]);
    expect(errorCode(refused)).toBe("invalid_scopes");
    const left = { ...wish, default_allowed_scopes: scopes.slice(0, 2) };
    expect((await client.post(path, left)).status).toBe(201);
  });

  test("accepts a scope of 256 characters and refuses one of 257", async () => {
    const { client } = await api.person();
    const scope = `custom:a:${"b".repeat(247)}`;
    expect(scope).toHaveLength(256);
    const refused = await client.post(path, { ...wish, default_allowed_scopes: [`${scope}a`] });
    expect(errorCode(refused)).toBe("invalid_scopes");
    expect((await client.post(path, { ...wish, default_allowed_scopes: [scope] })).status).toBe(201);
  });

  test.each([
    ["no scope", { default_allowed_scopes: [] }, "invalid_request"],
    [
      "65 scopes",
      { default_allowed_scopes: Array.from({ length: 65 }, (_, n) => `custom:a:${n}`) },
      "invalid_request",
    ],
    ["scopes of another type", { default_allowed_scopes: [1] }, "invalid_request"],
    ["no name", { name: undefined }, "invalid_request"],
    ["a name of blanks", { name: "   " }, "invalid_request"],
    ["a name of 129 characters", { name: "n".repeat(129) }, "invalid_request"],
    ["a name with a line break", { name: "a\nb" }, "invalid_request"],
    ["a name with a bidi control", { name: "Shop\u202e" }, "invalid_request"],
    ["a name with a zero-width space", { name: "Sh\u200bop" }, "invalid_request"],
    ["a description with a tag character", { description: "a\u{e0041}" }, "invalid_request"],
    ["a description of 1001 characters", { description: "d".repeat(1001) }, "invalid_request"],
    ["an unknown surface", { surface_type: "smoke_signals" }, "surface_not_available"],
    ["a surface named like a member of Object", { surface_type: "toString" }, "surface_not_available"],
    ["a surface not open yet", { surface_type: "conversational_ai" }, "surface_not_available"],
    ["the surface meetings", { surface_type: "meetings" }, "surface_not_available"],
    ["the surface physical_ai", { surface_type: "physical_ai" }, "surface_not_available"],
    ["a callback to an internal address", { callback_url: "http://10.0.0.1/" }, "invalid_callback_url"],
    ["a malformed callback", { callback_url: "hooks" }, "invalid_callback_url"],
  ])("refuses %s and writes nothing", async (_, change, expected) => {
    const { client, accountId } = await api.person();
    const { status, body } = await client.post(path, { ...wish, ...change });
    expect({ status, code: errorCode({ body }) }).toEqual({ status: 400, code: expected });
    expect(await api.db("platforms").where({ account_id: accountId })).toEqual([]);
  });

  test("accepts a name of 128 characters, and a description of 1000 characters with line breaks", async () => {
    const { answer } = await registerPlatform(await api.person(), {
      name: "n".repeat(128),
      description: `${"d".repeat(998)}\n.`,
    });
    expect(answer.status).toBe(201);
  });

  test("registers only one platform for a personal account when 16 calls race", async () => {
    const { client, accountId } = await api.person();
    await api.db.raw(`
      create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return new; end $$;
      create trigger dawdle before insert on platforms for each row execute function dawdle()`);
    const answers = await Promise.all(Array.from({ length: 16 }, () => client.post(path, wish)));
    await api.db.raw("drop trigger dawdle on platforms; drop function dawdle");
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter((answer) => errorCode(answer) === "platform_limit")).toHaveLength(15);
    expect(await api.db("platforms").where({ account_id: accountId })).toHaveLength(1);
  });

  test("returns the first answer again for the same idempotency key, including the secrets", async () => {
    const { client } = await api.person();
    const headers = { "idempotency-key": "once" };
    const first = await client.post(path, wish, { headers });
    const again = await client.post(path, wish, { headers });
    expect(again.status).toBe(201);
    expect(again.body).toEqual(first.body);
    const other = await client.post(path, { ...wish, name: "Other" }, { headers });
    expect(errorCode(other)).toBe("idempotency_conflict");
  });

  test("does not query the database after the commit, so that no fault can lose the secrets", async () => {
    const { client } = await api.person();
    const statements = await statementsAfterCommit(() => client.post(path, wish));
    expect(statements).toEqual([]);
  });

  test("needs a session, a CSRF header and a complete onboarding", async () => {
    expect(errorCode(await api.client().post(path, wish))).toBe("auth_required");
    const { client } = await api.person();
    expect(errorCode(await client.post(path, wish, { csrf: false }))).toBe("csrf_failed");
    const fresh = api.client();
    await fresh.signIn("fresh@example.test");
    expect(errorCode(await fresh.post(path, wish))).toBe("onboarding_incomplete");
  });
});

/** Returns the statements on platforms that a call executes after its transaction. */
async function statementsAfterCommit(call: () => Promise<{ status: number }>): Promise<string[]> {
  const seen: { sql: string; __knexTxId?: string }[] = [];
  const note = (query: { sql: string; __knexTxId?: string }) => seen.push(query);
  api.db.on("query", note);
  expect((await call()).status).toBeLessThan(300);
  api.db.removeListener("query", note);
  const committed = seen.findIndex(({ sql }) => /^commit/i.test(sql));
  expect(committed).toBeGreaterThan(0);
  return seen.slice(committed).flatMap(({ sql }) => (sql.includes('"platforms"') ? [sql] : []));
}

test("changing a platform returns what was committed, without reading it again", async () => {
  const person = await api.person();
  const { platformId } = await registerPlatform(person);
  const change = () =>
    person.client.call("PATCH", `/v1/service/platforms/${platformId}`, { body: { name: "Other" } });
  const statements = await statementsAfterCommit(change);
  expect(statements.filter((sql) => !sql.includes('"a"."vault_due_at"'))).toEqual([]);
});

describe("registering an organization's platforms", () => {
  test("succeeds any number of times", async () => {
    const { client } = await api.person({ organization_name: "Acme" });
    for (const name of ["One", "Two", "Three"]) {
      expect((await client.post("/v1/service/platforms", { ...wish, name })).status).toBe(201);
    }
    const listed = await client.get("/v1/service/platforms");
    expect((listed.body.items as { name: string }[]).map(({ name }) => name)).toEqual([
      "Three",
      "Two",
      "One",
    ]);
  });

  test("puts the organization's name into the event", async () => {
    const { client } = await api.person({ organization_name: "Acme" });
    const { body } = await client.post("/v1/service/platforms", wish);
    expect(await api.events(String(body.connection_id))).toMatchObject([{ org_name: "Acme" }]);
  });

  test("fails for a personal account, as registering a personal platform does for an organization", async () => {
    const person = await api.person();
    const company = await api.person({ organization_name: "Acme" });
    const refused = [
      await person.client.post("/v1/service/platforms", wish),
      await company.client.post(path, wish),
    ];
    expect(refused.map(({ status, body }) => [status, errorCode({ body })])).toEqual([
      [403, "not_available"],
      [403, "not_available"],
    ]);
  });
});

test("checkCallbackUrl applies the rules for webhook addresses, and refuses characters that URL parsers drop", () => {
  const policy = createAddressPolicy({ development: false, allowedCidrs: [] });
  expect(() => checkCallbackUrl("https://example.com/a?b=c", policy)).not.toThrow();
  for (const url of [
    "http://example.com/",
    "https://127.0.0.1/",
    "https://u@example.com/",
    "https://exa\tmple.com/",
  ]) {
    expect(() => checkCallbackUrl(url, policy)).toThrow(
      expect.objectContaining({ code: "invalid_callback_url" }),
    );
  }
});
