import { describe, expect, test } from "vitest";
import { syncVault } from "../../src/platforms/sync_vault.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { runningApi, startApi } from "../support/api.ts";
import { addRevoked } from "../support/mass_revocation.ts";
import { actingFor, addMember } from "../support/members.ts";
import {
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  selfRequest,
} from "../support/platform_world.ts";
import { connect, publisher } from "../support/two_companies.ts";

const api = runningApi();

describe("an application that reads the ids of its own connection", () => {
  const read = (apiKey: string) =>
    api
      .client()
      .get("/v1/service/connection", { headers: { "x-service-api-key": apiKey } })
      .then(({ status, body }) => [status, body]);

  test("gets the names to which operations are bound, also after the verifier got another name", async () => {
    const person = await api.person();
    const { connectionId, platformId, apiKey, answer } = await registerPlatform(person);
    const ids = {
      connection_id: connectionId,
      workspace_id: person.accountId,
      platform_id: platformId,
      allowed_scopes: answer.body.default_allowed_scopes,
      customer: null,
    };
    expect(await read(apiKey)).toEqual([200, { ...ids, verifier_id: connectionId }]);
    const path = `/v1/service/connections/${connectionId}`;
    await person.client.call("PATCH", path, { body: { verifier_id: "shop.example" } });
    expect(await read(apiKey)).toEqual([200, { ...ids, verifier_id: "shop.example" }]);
  });

  test("gets the customer, and the scopes that the customer still allows", async () => {
    const made = await connect(api, await publisher(api));
    expect((await read(made.apiKey))[1]).toMatchObject({
      connection_id: made.connectionId,
      allowed_scopes: ["data:read", "data:share"],
      customer: { org_id: made.person.accountId, org_name: "Customer & Sons" },
    });
    const narrower = { body: { allowed_scopes: ["data:share"] } };
    await made.person.client.call("PATCH", `/v1/service/connected-products/${made.connectionId}`, narrower);
    expect((await read(made.apiKey))[1]).toMatchObject({ allowed_scopes: ["data:share"] });
  });

  test("gets 401 without a valid API key", async () => {
    expect((await api.client().get("/v1/service/connection")).status).toBe(401);
    expect((await read("dpz_00000000_x"))[0]).toBe(401);
  });
});

describe("the callback URL", () => {
  test("can be set, replaced and cleared", async () => {
    const person = await api.person();
    const { connectionId, platformId } = await registerPlatform(person);
    const path = `/v1/service/connections/${connectionId}/callback`;
    for (const callback_url of ["http://127.0.0.1:8/hook", "https://hooks.example.com/in?a=1", null]) {
      const answer = await person.client.call("PUT", path, { body: { callback_url } });
      expect([answer.status, answer.body]).toEqual([200, { connection_id: connectionId, callback_url }]);
      const shown = await person.client.get(`/v1/service/platforms/${platformId}`);
      expect(shown.body.callback_url).toBe(callback_url);
    }
  });

  test("stays unchanged when a new URL is refused", async () => {
    const person = await api.person();
    const { connectionId, platformId } = await registerPlatform(person, {
      callback_url: "https://a.example/",
    });
    const path = `/v1/service/connections/${connectionId}/callback`;
    for (const callback_url of [
      "ftp://a.example/",
      "https://10.0.0.1/",
      "https://u:p@a.example/",
      "https:///x",
      "https://a.example\\@b.example/",
      "x",
    ]) {
      const answer = await person.client.call("PUT", path, { body: { callback_url } });
      expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_callback_url"]);
    }
    for (const body of [{}, { callback_url: 1 }, { callback_url: "" }]) {
      expect(errorCode(await person.client.call("PUT", path, { body }))).toBe("invalid_request");
    }
    const shown = await person.client.get(`/v1/service/platforms/${platformId}`);
    expect(shown.body.callback_url).toBe("https://a.example/");
  });

  test("must be https and must not be a loopback address outside development", async () => {
    const production = await startApi({
      shares: api,
      config: { DEVELOPMENT: false, WEBHOOK_ALLOWED_CIDRS: [] },
    });
    try {
      const person = await production.person();
      const { connectionId } = await registerPlatform(person);
      const path = `/v1/service/connections/${connectionId}/callback`;
      const set = (callback_url: string) => person.client.call("PUT", path, { body: { callback_url } });
      expect(errorCode(await set("http://hooks.example.com/"))).toBe("invalid_callback_url");
      expect(errorCode(await set("https://localhost/"))).toBe("invalid_callback_url");
      expect(errorCode(await set("https://127.0.0.1/"))).toBe("invalid_callback_url");
      expect((await set("https://hooks.example.com/")).status).toBe(200);
    } finally {
      await production.stop();
    }
  });
});

describe("rotating an API key", () => {
  test("returns a new working key, ends the old key, and emits one event", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const path = `/v1/service/connections/${platform.connectionId}/rotate-key`;
    const { status, body } = await person.client.post(path);
    expect(status).toBe(200);
    expect(body).toEqual({
      api_key: expect.stringMatching(/^dpz_/),
      api_key_prefix: String(body.api_key).slice(0, 12),
      previous_prefix: platform.apiKey.slice(0, 12),
    });
    const list = `/v1/service/connections/${platform.connectionId}/agents`;
    const withKey = (key: unknown) =>
      api.client().get(list, { headers: { "x-service-api-key": String(key) } });
    expect((await withKey(body.api_key)).status).toBe(200);
    await expect.poll(async () => (await withKey(platform.apiKey)).status).toBe(401);
    const events = await api.events(platform.connectionId);
    expect(events.slice(1)).toEqual([
      {
        event: "connection.key_rotated",
        connection_id: platform.connectionId,
        api_key_prefix: body.api_key_prefix,
        previous_prefix: body.previous_prefix,
      },
    ]);
    expect(JSON.stringify(events)).not.toContain(body.api_key);
  });

  test("allows each person 30 rotations an hour, including those of the webhook secret", async () => {
    const owner = await api.person({ organization_name: "Shops" });
    const { connectionId } = await registerPlatform(owner, {}, "/v1/service/platforms");
    const member = actingFor(await addMember(api, owner.accountId, "developer"), owner.accountId);
    const path = `/v1/service/connections/${connectionId}`;
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, count) =>
        member.post(`${path}/${count % 2 === 0 ? "rotate-key" : "rotate-webhook-secret"}`),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    for (const call of ["rotate-key", "rotate-webhook-secret"]) {
      const refused = await member.post(`${path}/${call}`);
      expect([errorCode(refused), refused.headers.has("retry-after")]).toEqual(["action_limited", true]);
    }
    expect((await owner.client.post(`${path}/rotate-key`)).status).toBe(200);
  });

  test("accepts a grace period from 0 to 86400 seconds only", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const rotate = (grace_seconds: unknown) =>
      person.client.post(`/v1/service/connections/${connectionId}/rotate-key`, { grace_seconds });
    for (const grace of [0, 86_400]) expect((await rotate(grace)).status).toBe(200);
    for (const grace of [-1, 86_401, 1.5, "1", null]) {
      expect(errorCode(await rotate(grace))).toBe("invalid_request");
    }
  });

  test("leaves exactly one current key when 8 rotations race", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const path = `/v1/service/connections/${connectionId}/rotate-key`;
    const answers = await Promise.all(Array.from({ length: 8 }, () => person.client.post(path)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    const current = await api.db("api_keys").where({ connection_id: connectionId, retires_at: null });
    expect(current).toHaveLength(1);
    const chain = (await api.events(connectionId)).slice(1);
    expect(chain.map((event) => event.previous_prefix).slice(1)).toEqual(
      chain.map((event) => event.api_key_prefix).slice(0, -1),
    );
  });
});

describe("removing a connection", () => {
  test("ends keys, certificates, requests and agents, and reports this once", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    const pending = await selfRequest(person, platform.connectionId);
    const path = `/v1/service/connections/${platform.connectionId}`;
    const removed = await person.client.call("DELETE", path);
    const removedAt = api.clock.now().toISOString();
    expect([removed.status, removed.body]).toEqual([
      200,
      { connection_id: platform.connectionId, removed_at: removedAt },
    ]);
    const certificate = await person.client.get(`/v1/service/delegations/${certId}`);
    expect(certificate.body).toMatchObject({ status: "revoked", revoke_reason: "connection removed" });
    const request = await person.client.get(`/v1/service/delegations/requests/${pending}`);
    expect(request.body).toMatchObject({ status: "withdrawn", reason: "connection removed" });
    expect(api.vault.keys.get(agentId)!.disabled).toBe(true);
    await expect
      .poll(async () =>
        errorCode(
          await api.client().post(
            "/v1/service/connections/x/agents",
            {},
            {
              headers: { "x-service-api-key": platform.apiKey },
            },
          ),
        ),
      )
      .toBe("invalid_api_key");
    const gone = await person.client.get(`/v1/service/platforms/${platform.platformId}`);
    expect([gone.status, errorCode(gone)]).toEqual([404, "not_found"]);
    expect((await person.client.get("/v1/service/platforms")).body.items).toEqual([]);

    api.clock.advance(10);
    const again = await person.client.call("DELETE", path);
    expect(again.body).toEqual(removed.body);
    const reported = (await api.events(platform.connectionId)).slice(-2);
    expect(reported).toEqual([
      {
        event: "delegation.revoked",
        cert_id: certId,
        agent_id: agentId,
        connection_id: platform.connectionId,
        org_id: person.accountId,
        reason: "connection removed",
      },
      {
        event: "connection.removed",
        connection_id: platform.connectionId,
        org_id: person.accountId,
        removed_at: removedAt,
      },
    ]);
  });

  test("succeeds while the vault is unavailable, and updates the vault later", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    const removed = await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
    api.vault.failure = undefined;
    expect(removed.status).toBe(200);
    expect((await api.db("certificates").where({ cert_id: certId }).first())!.status).toBe("revoked");
    expect(api.vault.keys.get(agentId)!.disabled).toBe(false);
    await syncVault(api);
    expect(api.vault.keys.get(agentId)!.disabled).toBe(true);
  });

  test("reports each of 3,000 certificates in a separate commit, and then the removal", async () => {
    const { person, platform, certId } = await delegated(api);
    const connection_id = platform.connectionId;
    await addRevoked(api.db, certId, 2_999);
    await api
      .db("certificates")
      .where({ connection_id })
      .update({ status: "approved", revoked_at: null, revoke_reason: null });
    expect((await person.client.call("DELETE", `/v1/service/connections/${connection_id}`)).status).toBe(200);
    const events = (await api.events(connection_id)).slice(-3_001);
    expect(events.map(({ event }) => event)).toEqual([
      ...Array(3_000).fill("delegation.revoked"),
      "connection.removed",
    ]);
    const ended = await api.db("certificates").where({ connection_id, status: "revoked" }).pluck("cert_id");
    expect(new Set(events.slice(0, -1).map(({ cert_id }) => cert_id))).toEqual(new Set(ended));
    expect(ended).toHaveLength(3_000);
  }, 120_000);

  test("lets a personal account register a new platform", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    await person.client.call("DELETE", `/v1/service/connections/${connectionId}`);
    expect((await registerPlatform(person)).answer.status).toBe(201);
  });

  test("reports the removal once when 8 calls race, and leaves no certificate from a concurrent approval", async () => {
    for (let round = 0; round < 3; round += 1) {
      const person = await api.person();
      const platform = await registerPlatform(person);
      await createAgent(api.client(), platform);
      const requests = await Promise.all(
        Array.from({ length: 4 }, () => selfRequest(person, platform.connectionId)),
      );
      const remove = () => person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
      const [removals] = await Promise.all([
        Promise.all(Array.from({ length: 8 }, remove)),
        ...requests.map((id) =>
          person.client.post(`/v1/service/delegations/requests/${id}/approve`, {
            approved_scope: ["data:read"],
          }),
        ),
      ]);
      expect(removals.map(({ status }) => status)).toEqual(Array(8).fill(200));
      const events = await api.events(platform.connectionId);
      expect(events.filter(({ event }) => event === "connection.removed")).toHaveLength(1);
      expect(events.at(-1)?.event).toBe("connection.removed");
      const count = (kind: string) => events.filter(({ event }) => event === kind).length;
      expect(count("delegation.revoked")).toBe(count("delegation.approved"));
      const where = { connection_id: platform.connectionId };
      expect(await api.db("certificates").where({ ...where, status: "approved" })).toEqual([]);
      expect(await api.db("delegation_requests").where({ ...where, status: "pending" })).toEqual([]);
    }
  });
});
