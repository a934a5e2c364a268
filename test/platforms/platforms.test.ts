import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { syncVault } from "../../src/platforms/sync_vault.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { runningApi } from "../support/api.ts";
import { delegated, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const PLATFORMS = "/v1/service/platforms";

const secretNames = /"(api_key|signing_secret|webhook_signing_secret)"/;

describe("reading platforms", () => {
  test("returns all fields except secrets", async () => {
    const person = await api.person();
    const { platformId, answer } = await registerPlatform(person);
    const { api_key: _, signing_secret: __, webhook_signing_secret: ___, ...shown } = answer.body;
    const one = await person.client.get(`/v1/service/platforms/${platformId}`);
    expect(one.status).toBe(200);
    expect(one.body).toEqual({
      ...shown,
      state: "active",
      redirect_uris: [],
      scope_descriptions: {},
      explanation_values: "rounded",
      declared_by: null,
    });
    const all = await person.client.get("/v1/service/platforms");
    expect(all.body).toEqual({ items: [one.body], next_cursor: null });
    expect(one.text + all.text).not.toMatch(secretNames);
  });

  test("returns all platforms in pages, newest first, each once", async () => {
    const { client } = await api.person({ organization_name: "Acme" });
    const names: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      if (n % 3 === 0) api.clock.advance(0.001);
      const wish = { name: `P${n}`, surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
      expect((await client.post("/v1/service/platforms", wish)).status).toBe(201);
      names.unshift(wish.name);
    }
    const seen: string[] = [];
    let cursor: string | null = "";
    for (let page = 0; cursor !== null && page < 10; page += 1) {
      const query: string = cursor === "" ? "limit=3" : `limit=3&cursor=${cursor}`;
      const { body } = await client.get(`/v1/service/platforms?${query}`);
      seen.push(...(body.items as { name: string }[]).map(({ name }) => name));
      cursor = body.next_cursor as string | null;
    }
    expect(seen).toEqual(names);
  });

  test.each([
    "limit=0",
    "limit=101",
    "limit=x",
    "limit=1.5",
    "cursor=%00",
    "cursor=e30",
    "cursor=bm90aGluZw",
    "limit=",
  ])("refuses a list with %s", async (query) => {
    const { client } = await api.person();
    expect(errorCode(await client.get(`/v1/service/platforms?${query}`))).toBe("invalid_request");
  });

  test("refuses a cursor with an invalid time or id", async () => {
    const { client } = await api.person();
    for (const place of [
      ["2026-01-01T00:00:00.000000Z", "'; drop"],
      ["2026-02-30T00:00:00.000000Z", "00000000-0000-0000-0000-000000000000"],
      ["0000-01-01T00:00:00.000000Z", "00000000-0000-0000-0000-000000000000"],
      ["now", "00000000-0000-0000-0000-000000000000"],
      ["2026-01-01T00:00:00.000000Z"],
      {},
    ]) {
      const cursor = Buffer.from(JSON.stringify(place)).toString("base64url");
      expect(errorCode(await client.get(`/v1/service/platforms?cursor=${cursor}`))).toBe("invalid_request");
    }
  });

  test.each(["limit=1", "limit=100"])("accepts a list with %s", async (query) => {
    const { client } = await api.person();
    expect((await client.get(`/v1/service/platforms?${query}`)).status).toBe(200);
  });
});

describe("changing a platform", () => {
  test("changes the given fields and keeps the others", async () => {
    const person = await api.person();
    const { platformId, answer } = await registerPlatform(person, { description: "before" });
    const path = `/v1/service/platforms/${platformId}`;
    const renamed = await person.client.call("PATCH", path, { body: { name: "New name" } });
    expect(renamed.body).toMatchObject({
      name: "New name",
      description: "before",
      default_allowed_scopes: answer.body.default_allowed_scopes,
    });
    const emptied = await person.client.call("PATCH", path, { body: { description: "" } });
    expect(emptied.body).toMatchObject({ name: "New name", description: "" });
    expect((await person.client.get(path)).body).toEqual(emptied.body);
  });

  test("lets the ceiling shrink, and compares wildcards by the scopes that they cover", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person, {
      default_allowed_scopes: ["data:*", "data:write"],
    });
    const path = `/v1/service/platforms/${platformId}`;
    const same = await person.client.call("PATCH", path, {
      body: { default_allowed_scopes: ["data:read", "data:share", "data:write"] },
    });
    expect(same.status).toBe(200);
    const shrunk = await person.client.call("PATCH", path, {
      body: { default_allowed_scopes: ["data:read"] },
    });
    expect(shrunk.body.default_allowed_scopes).toEqual(["data:read"]);
    const widened = await person.client.call("PATCH", path, {
      body: { name: "Not this", default_allowed_scopes: ["data:read", "data:share"] },
    });
    expect([widened.status, errorCode(widened)]).toEqual([400, "ceiling_widened"]);
    expect((widened.body.error as { message: string }).message).toContain('"data:share"');
    expect((await person.client.get(path)).body).toMatchObject({
      name: "Shop",
      default_allowed_scopes: ["data:read"],
    });
  });

  test("refuses a sensitive scope if the former ceiling contained only its wildcard", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person, { default_allowed_scopes: ["data:*"] });
    const answer = await person.client.call("PATCH", `/v1/service/platforms/${platformId}`, {
      body: { default_allowed_scopes: ["data:delete"] },
    });
    expect(errorCode(answer)).toBe("ceiling_widened");
  });

  test("removes scopes above the smaller ceiling from certificates, and updates the vault", async () => {
    const { person, platform, agentId, certId } = await delegated(api, ["data:read", "payments:send"]);
    const path = `/v1/service/platforms/${platform.platformId}`;
    const unshrunk = await api.db("certificates").where({ cert_id: certId }).first();
    expect(unshrunk!.ceiling_scope).toBeNull();
    await person.client
      .call("PATCH", path, { body: { default_allowed_scopes: ["data:*"] } })
      .then((answer) => {
        expect(errorCode(answer)).toBeUndefined();
      });
    const certificate = await api.db("certificates").where({ cert_id: certId }).first();
    expect(certificate).toMatchObject({ status: "approved", ceiling_scope: ["data:read", "data:share"] });
    expect(certificate!.cert_json).toBe(unshrunk!.cert_json);
    expect(api.vault.keys.get(agentId)!.ceiling).toEqual(["data:*"]);
    expect((await api.db("agents").where({ agent_id: agentId }).first())!.vault_due_at).toBeNull();
  });

  test("shrinks the ceiling while the vault is unavailable, and updates the vault later", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    const answer = await person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { default_allowed_scopes: ["data:share"] },
    });
    api.vault.failure = undefined;
    expect(answer.status).toBe(200);
    const certificate = await api.db("certificates").where({ cert_id: certId }).first();
    expect(certificate!.ceiling_scope).toEqual(["data:share"]);
    expect(api.vault.keys.get(agentId)!.ceiling).toContain("data:read");
    expect(await syncVault(api)).toBe(1);
    expect(api.vault.keys.get(agentId)!.ceiling).toEqual(["data:share"]);
    expect(await syncVault(api)).toBe(0);
  });

  test("keeps a custom wildcard that an earlier version registered, and never adds one", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person);
    const change = (...scopes: string[]) =>
      person.client.call("PATCH", `/v1/service/platforms/${platformId}`, {
        body: { default_allowed_scopes: scopes },
      });
    expect(errorCode(await change("data:read", "custom:orders:*"))).toBe("ceiling_widened");
    const kept = ["data:read", "data:share", "custom:orders:*"];
    await api.db("platforms").where({ platform_id: platformId }).update({ default_allowed_scopes: kept });
    expect((await change("data:read", "custom:orders:*")).status).toBe(200);
  });

  test("refuses unknown scopes", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person);
    const path = `/v1/service/platforms/${platformId}`;
    const invalid = await person.client.call("PATCH", path, { body: { default_allowed_scopes: ["nope"] } });
    expect(errorCode(invalid)).toBe("invalid_scopes");
    const none = await person.client.call("PATCH", path, { body: { default_allowed_scopes: [] } });
    expect(errorCode(none)).toBe("invalid_request");
  });
});

describe("another account's platform", () => {
  test("cannot be found by any call, and stays unchanged", async () => {
    const { platform, certId } = await delegated(api);
    const { client } = await api.person();
    const { platformId, connectionId } = platform;
    const before = await api.db("connections").where({ connection_id: connectionId }).first();
    for (const [method, path, body] of [
      ["GET", `/v1/service/platforms/${platformId}`, undefined],
      ["PATCH", `/v1/service/platforms/${platformId}`, { name: "Mine" }],
      ["PUT", `/v1/service/connections/${connectionId}/callback`, { callback_url: null }],
      ["POST", `/v1/service/connections/${connectionId}/rotate-key`, {}],
      ["DELETE", `/v1/service/connections/${connectionId}`, undefined],
      ["GET", "/v1/service/platforms/nonsense", undefined],
      ["DELETE", "/v1/service/connections/nonsense", undefined],
      ["POST", `/v1/service/connections/${crypto.randomUUID()}/rotate-key`, {}],
    ] as const) {
      const answer = await client.call(method, path, { body });
      expect([path, answer.status, errorCode(answer)]).toEqual([path, 404, "not_found"]);
    }
    expect(await api.db("connections").where({ connection_id: connectionId }).first()).toEqual(before);
    expect((await api.db("certificates").where({ cert_id: certId }).first())!.status).toBe("approved");
  });
});

test("a call without a session, a CSRF token or a complete account fails for that reason first", async () => {
  const { client } = await api.person();
  expect(errorCode(await api.client().post(PLATFORMS))).toBe("auth_required");
  expect(errorCode(await client.post(PLATFORMS, undefined, { csrf: false }))).toBe("csrf_failed");
  const beginner = api.client();
  await beginner.signIn(`${randomUUID()}@example.test`);
  expect(errorCode(await beginner.post(PLATFORMS))).toBe("onboarding_incomplete");
});

test("an organization registers any number of platforms, each with its own keys and agents", async () => {
  const person = await api.person({ organization_name: "Analytical Engines" });
  const platforms = await Promise.all(
    Array.from({ length: 5 }, (_, n) => registerPlatform(person, { name: `Shop ${n}` }, PLATFORMS)),
  );
  const { body } = await person.client.get(PLATFORMS);
  expect((body.items as { name: string }[]).map(({ name }) => name).sort()).toEqual([
    "Shop 0",
    "Shop 1",
    "Shop 2",
    "Shop 3",
    "Shop 4",
  ]);
  const [one, other] = platforms;
  const headers = { "x-service-api-key": one?.apiKey ?? "" };
  const agents = (connectionId = "") =>
    api.client().get(`/v1/service/connections/${connectionId}/agents`, { headers });
  expect((await agents(one?.connectionId)).status).toBe(200);
  expect(errorCode(await agents(other?.connectionId))).toBe("not_found");
});
