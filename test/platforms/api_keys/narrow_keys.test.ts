import { describe, expect, test } from "vitest";
import { createKeyUses } from "../../../src/platforms/api_keys/key_uses.ts";
import { runningApi, type TestApi, withReplica } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { createKey, fillKeys } from "../../support/narrow_keys.ts";
import { createAgent, delegated, errorCode, registerPlatform } from "../../support/platform_world.ts";

const api = runningApi();

type Owned = Awaited<ReturnType<typeof delegated>>;

const pathOf = ({ platform }: Pick<Owned, "platform">, suffix = "") =>
  `/v1/service/connections/${platform.connectionId}${suffix}`;

const self = (key: string, at: TestApi = api) =>
  at.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": key } });

async function withKeys() {
  const owned = await delegated(api);
  const wishes = [{ role: "agent", agent_id: owned.agentId }, { role: "verify" }];
  const [agent, verify] = await Promise.all(
    wishes.map(async (wish) => (await createKey(api, owned.platform, wish)).body as Record<string, string>),
  );
  return { ...owned, agentKey: agent?.api_key ?? "", verifyKey: verify?.api_key ?? "" };
}

async function listed(owned: Owned): Promise<Record<string, unknown>[]> {
  const { body } = await owned.person.client.get(pathOf(owned, "/keys"));
  return body.items as Record<string, unknown>[];
}

describe("a narrow key", () => {
  test("shows its role in its prefix, and learns from the service what it is for", async () => {
    const { person, platform, agentId, agentKey, verifyKey } = await withKeys();
    expect([agentKey.slice(0, 5), verifyKey.slice(0, 5)]).toEqual(["dpza_", "dpzv_"]);
    const place = {
      connection_id: platform.connectionId,
      verifier_id: platform.connectionId,
      workspace_id: person.accountId,
    };
    const shown = { ...place, role: "agent", agent_id: agentId, api_key_prefix: agentKey.slice(0, 13) };
    expect((await self(agentKey)).body).toEqual(shown);
    expect((await self(verifyKey)).body).toMatchObject({ ...place, role: "verify", agent_id: null });
    expect((await self(platform.apiKey)).body).toMatchObject({ ...place, role: "full", agent_id: null });
  });

  test.each<[string, (owned: Owned & { agentKey: string }) => Promise<HttpAnswer>, boolean]>([
    ["its end", (own) => end(own, own.agentKey), false],
    [
      "its agent's deletion",
      (own) => own.person.client.call("DELETE", pathOf(own, `/agents/${own.agentId}`)),
      false,
    ],
    ["its connection's removal", (own) => own.person.client.call("DELETE", pathOf(own)), true],
  ])("stops in every replica after %s", async (_, act, endsAll) => {
    const owned = await withKeys();
    const keys = [owned.agentKey, owned.verifyKey];
    await withReplica(api, {}, async (replica) => {
      for (const key of keys) expect((await self(key, replica)).status).toBe(200);
      for (const key of keys) expect((await self(key)).status).toBe(200);
      expect((await act(owned)).status).toBe(200);
      const expected = endsAll ? [401, 401] : [401, 200];
      const seen = async (at: TestApi) => Promise.all(keys.map(async (key) => (await self(key, at)).status));
      expect(await seen(api)).toEqual(expected);
      await expect.poll(() => seen(replica), { timeout: 20_000, interval: 20 }).toEqual(expected);
    });
  });

  test("outlives the replacement of the full key, which also leaves the list unchanged", async () => {
    const owned = await withKeys();
    const answer = await owned.person.client.post(pathOf(owned, "/rotate-key"));
    expect(answer.status).toBe(200);
    expect((await self(owned.platform.apiKey)).status).toBe(401);
    expect([(await self(owned.agentKey)).status, (await self(owned.verifyKey)).status]).toEqual([200, 200]);
  });

  test("uses a changed verifier name from the answer on", async () => {
    const owned = await withKeys();
    expect((await self(owned.verifyKey)).status).toBe(200);
    const body = { verifier_id: "https://renamed.example.com" };
    await owned.person.client.call("PATCH", pathOf(owned), { body });
    expect((await self(owned.verifyKey)).body.verifier_id).toBe(body.verifier_id);
  });

  test("presents for its agent over a challenge of the verifier that it names", async () => {
    const { person, platform, agentId, agentKey } = await withKeys();
    const headers = { "x-service-api-key": agentKey };
    const challenge = (verifier?: string) => {
      const query = verifier === undefined ? "" : `?verifier_connection_id=${verifier}`;
      return api.client().post(`/v1/service/challenge${query}`, undefined, { headers });
    };
    expect(errorCode(await challenge())).toBe("invalid_request");
    for (const verifier of ["unknown", person.accountId]) {
      expect(errorCode(await challenge(verifier))).toBe("not_found");
    }
    const issued = await challenge(platform.connectionId);
    const path = pathOf({ platform }, `/agents/${agentId}/present`);
    const wish = { challenge: issued.body.challenge, required_scope: "data:read" };
    expect((await api.client().post(path, wish, { headers })).status).toBe(200);
  });
});

function end(owned: Owned, key: string): Promise<HttpAnswer> {
  return owned.person.client.call("DELETE", pathOf(owned, `/keys/${key.slice(0, 13)}`));
}

describe("the keys of a connection", () => {
  test("appear in a list with roles, makers, ends and last uses, but no secrets", async () => {
    const owned = await withKeys();
    const made = await owned.person.client.post(pathOf(owned, "/keys"), { role: "verify" });
    expect((await end(owned, owned.verifyKey)).status).toBe(200);
    const full = owned.platform.apiKey.slice(0, 12);
    const now = api.clock.now().toISOString();
    const keys = await listed(owned);
    expect(JSON.stringify(keys)).not.toContain(String(made.body.api_key).slice(14, 30));
    const common = { created_at: now, last_used_at: null, valid_until: null, agent_id: null };
    expect(keys).toHaveLength(4);
    expect(keys).toEqual(
      expect.arrayContaining([
        { ...common, api_key_prefix: full, role: "full", made_with: null },
        {
          ...common,
          api_key_prefix: owned.agentKey.slice(0, 13),
          role: "agent",
          made_with: full,
          agent_id: owned.agentId,
        },
        {
          ...common,
          api_key_prefix: owned.verifyKey.slice(0, 13),
          role: "verify",
          made_with: full,
          valid_until: now,
        },
        { ...common, api_key_prefix: made.body.api_key_prefix, role: "verify", made_with: null },
      ]),
    );
  });

  test("appear in events when they begin and end, with who did it, and never with the key", async () => {
    const owned = await withKeys();
    await end(owned, owned.agentKey);
    await end(owned, owned.agentKey);
    const ending = `${pathOf(owned)}/keys/${owned.verifyKey.slice(0, 13)}`;
    const headers = { "x-service-api-key": owned.platform.apiKey };
    expect((await api.client().call("DELETE", ending, { headers })).status).toBe(200);
    const events = await api.events(owned.platform.connectionId);
    const made_with = owned.platform.apiKey.slice(0, 12);
    const agent = {
      connection_id: owned.platform.connectionId,
      api_key_prefix: owned.agentKey.slice(0, 13),
      role: "agent",
      agent_id: owned.agentId,
    };
    const verify = {
      ...agent,
      api_key_prefix: owned.verifyKey.slice(0, 13),
      role: "verify",
      agent_id: null,
    };
    const ended = { event: "connection.key_ended", ended_at: api.clock.now().toISOString() };
    const told = events.filter(({ event }) => String(event).startsWith("connection.key_"));
    expect(told).toHaveLength(4);
    expect(told).toEqual(
      expect.arrayContaining([
        { event: "connection.key_created", ...agent, made_with },
        { event: "connection.key_created", ...verify, made_with },
        { ...ended, ...agent, ended_with: null },
        { ...ended, ...verify, ended_with: made_with },
      ]),
    );
    for (const key of [owned.agentKey, owned.verifyKey]) expect(JSON.stringify(events)).not.toContain(key);
  });

  test("end once: a repeated call returns the first time, and a full key has no such end", async () => {
    const owned = await withKeys();
    const first = await end(owned, owned.agentKey);
    api.clock.advance(5);
    expect((await end(owned, owned.agentKey)).body).toEqual(first.body);
    expect(errorCode(await end(owned, `${owned.platform.apiKey.slice(0, 12)}x`))).toBe("not_found");
    const { platform } = await withKeys();
    expect(errorCode(await end({ ...owned, platform }, owned.verifyKey))).toBe("not_found");
  });

  test("belong to agents of the connection that are not deleted", async () => {
    const owned = await withKeys();
    const stranger = await withKeys();
    const create = (agent_id?: string, role = "agent") =>
      createKey(api, owned.platform, { role, ...(agent_id !== undefined && { agent_id }) });
    expect(errorCode(await create(stranger.agentId))).toBe("not_found");
    expect(errorCode(await create())).toBe("invalid_request");
    expect(errorCode(await create(owned.agentId, "verify"))).toBe("invalid_request");
    expect(errorCode(await create(owned.agentId, "full"))).toBe("invalid_request");
    await owned.person.client.call("DELETE", pathOf(owned, `/agents/${owned.agentId}`));
    expect(errorCode(await create(owned.agentId))).toBe("agent_disabled");
  });

  test("number at most 100, and ended ones leave the database after seven days", async () => {
    const owned = await withKeys();
    await fillKeys(api, owned.platform.connectionId);
    expect(errorCode(await createKey(api, owned.platform, { role: "verify" }))).toBe("key_limit");
    await end(owned, owned.verifyKey);
    expect((await createKey(api, owned.platform, { role: "verify" })).status).toBe(201);
    await end(owned, owned.agentKey);
    api.clock.advance(7 * 24 * 3_600 + 1);
    expect((await createKey(api, owned.platform, { role: "verify" })).status).toBe(201);
    const kept = await api.db("narrow_keys").where({ connection_id: owned.platform.connectionId });
    expect(kept.filter(({ ended_at }) => ended_at !== null)).toEqual([]);
  });

  test("stay visible for ten minutes to a full key that repeats its Idempotency-Key", async () => {
    const { platform } = await withKeys();
    const headers = { "x-service-api-key": platform.apiKey, "idempotency-key": "one" };
    const create = () => api.client().post(pathOf({ platform }, "/keys"), { role: "verify" }, { headers });
    const first = await create();
    expect((await create()).body).toEqual(first.body);
    api.clock.advance(601);
    expect(errorCode(await create())).toBe("answer_not_kept");
  });

  test("change only by owners and developers", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
    await createAgent(api.client(), platform);
    for (const [role, status] of [
      ["developer", 201],
      ["approver", 403],
      ["auditor", 403],
    ] as const) {
      const member = actingFor(await addMember(api, owner.accountId, role), owner.accountId);
      expect((await member.post(pathOf({ platform }, "/keys"), { role: "verify" })).status).toBe(status);
      expect((await member.get(pathOf({ platform }, "/keys"))).status).toBe(200);
    }
  });
});

describe("the last use of a key", () => {
  const lastUse = async (owned: Owned, key: string) =>
    (await listed(owned)).find(({ api_key_prefix }) => key.startsWith(`${api_key_prefix}_`))?.last_used_at;

  test("changes at most once in five minutes for each replica, and none sets it back", async () => {
    const owned = await withKeys();
    const replica = () => createKeyUses(api.db);
    const [first, second, third] = [replica(), replica(), replica()];
    const prefix = owned.agentKey.slice(0, 13);
    const start = new Date("2030-01-01T00:00:00Z");
    const at = (seconds: number) => new Date(start.getTime() + seconds * 1_000);
    const steps = [
      [first, 0, 0],
      [first, 299, 0],
      [second, 299, 299],
      [first, 300, 300],
      [third, 100, 300],
    ] as const;
    for (const [uses, seconds, stored] of steps) {
      uses.note(prefix, at(seconds));
      await uses.write();
      expect(await lastUse(owned, owned.agentKey)).toBe(at(stored).toISOString());
    }
  });
});
