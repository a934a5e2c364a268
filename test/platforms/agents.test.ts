import { describe, expect, test } from "vitest";
import { createAgent as create } from "../../src/platforms/agents/agents.ts";
import { keyId } from "../../src/protocol/keys/hybrid.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import {
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  selfRequest,
} from "../support/platform_world.ts";
import { agentsWorld } from "./agents_world.ts";

const { api, call } = agentsWorld();

const wish = { name: "shop-bot", agent_type: "api_agent" };

describe("creating an agent", () => {
  test("returns the agent as specified, and the agent's id is the id of the key", async () => {
    const platform = await registerPlatform(await api.person());
    const { status, body } = await call(platform, "POST", "", wish);
    expect(status).toBe(201);
    expect(body).toEqual({
      agent_id: keyId(body.public_key_json as Parameters<typeof keyId>[0]),
      name: "shop-bot",
      agent_type: "api_agent",
      custody_mode: "custodial",
      public_key_json: { ed25519: expect.any(String), ml_dsa_65: expect.any(String) },
      connection_id: platform.connectionId,
      created_at: api.clock.now().toISOString(),
      disabled_at: null,
    });
  });

  test("stores the agent's key in the vault, for the account and under the platform's ceiling", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person, { default_allowed_scopes: ["data:*"] });
    const agentId = await createAgent(api.client(), platform);
    expect(api.vault.keys.get(agentId)).toMatchObject({
      tenant: person.accountId,
      purpose: "agent",
      ceiling: ["data:*"],
    });
    const row = await api.db("agents").where({ agent_id: agentId }).first();
    expect(row!.attestation).toMatchObject({ key_id: agentId });
  });

  test.each(["api_agent", "voice_agent", "meeting_bot", "mcp_server", "robot", "custom"])(
    "accepts the type %s",
    async (agent_type) => {
      const platform = await registerPlatform(await api.person());
      expect((await call(platform, "POST", "", { ...wish, agent_type })).body.agent_type).toBe(agent_type);
    },
  );

  test("accepts the custodial mode without a key", async () => {
    const platform = await registerPlatform(await api.person());
    const named = { ...wish, custody_mode: "custodial", public_key_json: null };
    const { status, body } = await call(platform, "POST", "", named);
    expect([status, body.custody_mode]).toEqual([201, "custodial"]);
  });

  test.each([
    ["self_custody", { custody_mode: "self_custody" }, "not_available", 403],
    ["another custody mode", { custody_mode: "own" }, "invalid_request", 400],
    ["an empty custody mode", { custody_mode: null }, "invalid_request", 400],
    ["a key of the caller's", { public_key_json: { ed25519: "A", ml_dsa_65: "B" } }, "invalid_request", 400],
    ["a key under another name", { public_key: "A" }, "invalid_request", 400],
    [
      "self custody with a key",
      { custody_mode: "self_custody", public_key_json: {} },
      "invalid_request",
      400,
    ],
  ])("refuses %s and creates no key", async (_, more, code, status) => {
    const platform = await registerPlatform(await api.person());
    const keys = api.vault.keys.size;
    const answer = await call(platform, "POST", "", { ...wish, ...more });
    expect([answer.status, errorCode(answer)]).toEqual([status, code]);
    expect(await api.db("agents").where({ connection_id: platform.connectionId })).toEqual([]);
    expect(api.vault.keys.size).toBe(keys);
  });

  test.each([
    ["an unknown type", { agent_type: "ghost" }],
    ["no name", { name: undefined }],
    ["an empty name", { name: "" }],
    ["a name of 257 bytes", { name: `${"é".repeat(128)}a` }],
  ])("refuses %s without a call to the vault", async (_, change) => {
    const platform = await registerPlatform(await api.person());
    const before = api.vault.calls.length;
    const answer = await call(platform, "POST", "", { ...wish, ...change });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
    expect(api.vault.calls).toHaveLength(before);
  });

  test("accepts a name of 256 bytes", async () => {
    const platform = await registerPlatform(await api.person());
    expect((await call(platform, "POST", "", { ...wish, name: "é".repeat(128) })).status).toBe(201);
  });

  test("writes nothing when the vault is unavailable", async () => {
    const platform = await registerPlatform(await api.person());
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    const answer = await call(platform, "POST", "", wish);
    expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
    expect(await api.db("agents").where({ connection_id: platform.connectionId })).toEqual([]);
  });

  test("creates one agent per idempotency key, and a new agent for a call without one", async () => {
    const platform = await registerPlatform(await api.person());
    const once = () => call(platform, "POST", "", wish, { "idempotency-key": "k" });
    const [first, again] = [await once(), await once()];
    expect(again.body).toEqual(first.body);
    const others = await Promise.all([call(platform, "POST", "", wish), call(platform, "POST", "", wish)]);
    expect(new Set([first, ...others].map(({ body }) => body.agent_id)).size).toBe(3);
  });

  test("uses the first attempt's key after a crash that followed the vault's or the database's change", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const order = {
      accountId: person.accountId,
      connectionId: platform.connectionId,
      name: "bot",
      agentType: "api_agent",
      attemptKey: "attempt",
      externalId: null,
      objectName: null,
    } as const;
    const crash = new Error("crash");
    const dying: typeof api.vault = {
      ...api.vault,
      async createKey(...order) {
        await api.vault.createKey(...order);
        throw crash;
      },
    };
    await expect(create({ ...api, vault: dying }, order)).rejects.toBe(crash);
    const keys = api.vault.keys.size;
    const agent = await create(api, order);
    const again = await create(api, order);
    expect(again.agent_id).toBe(agent.agent_id);
    expect(api.vault.keys.size).toBe(keys);
    expect(await api.db("agents").where({ connection_id: platform.connectionId })).toHaveLength(1);
  });

  test("sends the vault the new ceiling if the ceiling shrank while the vault created the key", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    api.vault.pause = () => {
      reach();
      return held;
    };
    const creating = call(platform, "POST", "", wish);
    await reached;
    api.vault.pause = undefined;
    await person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { default_allowed_scopes: ["data:read"] },
    });
    release();
    const { body } = await creating;
    expect(api.vault.keys.get(String(body.agent_id))!.ceiling).toEqual(["data:read"]);
  });
});

describe("an API key", () => {
  test("gives access to its own connection's agents only", async () => {
    const mine = await registerPlatform(await api.person());
    const theirs = await registerPlatform(await api.person());
    const agentId = await createAgent(api.client(), theirs);
    const crossed = { ...theirs, apiKey: mine.apiKey };
    for (const [method, path, body] of [
      ["POST", "", wish],
      ["GET", "", undefined],
      ["GET", `/${agentId}`, undefined],
      ["DELETE", `/${agentId}`, undefined],
    ] as const) {
      const answer = await call(crossed, method, path, body);
      expect([method, answer.status, errorCode(answer)]).toEqual([method, 404, "not_found"]);
    }
    const answer = await call(mine, "GET", `/${agentId}`);
    expect(errorCode(answer)).toBe("not_found");
    expect(errorCode(await call(mine, "DELETE", `/${agentId}`))).toBe("not_found");
    expect((await call(theirs, "GET", `/${agentId}`)).body.disabled_at).toBeNull();
  });

  test("must be sent to create an agent, so the API refuses a session", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const path = `/v1/service/connections/${connectionId}/agents`;
    expect(errorCode(await person.client.post(path, wish))).toBe("invalid_api_key");
    expect(errorCode(await api.client().post(path, wish))).toBe("invalid_api_key");
    expect(errorCode(await api.client().get(path))).toBe("auth_required");
  });
});

describe("listing agents", () => {
  test("returns agents in pages, newest first, without deleted ones", async () => {
    const platform = await registerPlatform(await api.person());
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      api.clock.advance(1);
      ids.unshift(await createAgent(api.client(), platform, { name: `bot ${n}` }));
    }
    await call(platform, "DELETE", `/${ids[2]}`);
    const first = await call(platform, "GET", "?limit=2");
    const second = await call(platform, "GET", `?limit=2&cursor=${String(first.body.next_cursor)}`);
    const shown = [first, second].flatMap(({ body }) => body.items as { agent_id: string }[]);
    expect(shown.map(({ agent_id }) => agent_id)).toEqual([ids[0], ids[1], ids[3], ids[4]]);
    expect(second.body.next_cursor).toBeNull();
  });

  test("returns not_found for text that is not an agent id", async () => {
    const platform = await registerPlatform(await api.person());
    for (const id of ["nope", "0".repeat(32), "%00"]) {
      expect(errorCode(await call(platform, "GET", `/${id}`))).toBe("not_found");
    }
  });
});

describe("deleting an agent", () => {
  test("disables the key, revokes the certificates and withdraws the requests, and reports each once", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    const pending = await selfRequest(person, platform.connectionId);
    const deleted = await call(platform, "DELETE", `/${agentId}`);
    const disabledAt = api.clock.now().toISOString();
    expect([deleted.status, deleted.body]).toEqual([200, { agent_id: agentId, disabled_at: disabledAt }]);
    expect(api.vault.keys.get(agentId)!.disabled).toBe(true);
    const certificate = await person.client.get(`/v1/service/delegations/${certId}`);
    expect(certificate.body).toMatchObject({ status: "revoked", revoke_reason: "agent deleted" });
    const request = await person.client.get(`/v1/service/delegations/requests/${pending}`);
    expect(request.body.status).toBe("withdrawn");
    expect((await call(platform, "GET", `/${agentId}`)).body.disabled_at).toBe(disabledAt);

    api.clock.advance(5);
    expect((await call(platform, "DELETE", `/${agentId}`)).body).toEqual(deleted.body);
    const reported = (await api.events(platform.connectionId)).filter(
      ({ event }) => event === "delegation.revoked",
    );
    expect(reported).toEqual([
      {
        event: "delegation.revoked",
        cert_id: certId,
        agent_id: agentId,
        connection_id: platform.connectionId,
        org_id: person.accountId,
        reason: "agent deleted",
      },
    ]);
  });

  test("does not change the connection's other agents", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    const other = await createAgent(api.client(), platform);
    const kept = await selfRequest(person, platform.connectionId, { agent_id: agentId });
    await call(platform, "DELETE", `/${other}`);
    expect((await person.client.get(`/v1/service/delegations/${certId}`)).body.status).toBe("approved");
    expect((await person.client.get(`/v1/service/delegations/requests/${kept}`)).body.status).toBe("pending");
    expect(api.vault.keys.get(agentId)!.disabled).toBe(false);
  });
});
