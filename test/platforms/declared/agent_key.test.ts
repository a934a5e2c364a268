import { describe, expect, test } from "vitest";
import { runningApi, type TestApi, withReplica } from "../../support/api.ts";
import { fillKeys } from "../../support/narrow_keys.ts";
import { errorCode } from "../../support/platform_world.ts";
import { agentPath, declarations, newUid } from "../declarations.ts";

const api = runningApi();
const { declared } = declarations(api);

type Scene = Awaited<ReturnType<typeof scene>>;

/** Declares an agent. `bot` names its object. */
async function scene() {
  const { person, id: platform, answer } = await declared({ object: { namespace: "default", name: "shop" } });
  const id = newUid();
  const object = { namespace: "default", name: "bot" };
  const declare = (as: string) =>
    api.operator("PUT", agentPath(as), {
      object,
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
  const { body } = await declare(id);
  const { connection_id, verifier_id } = answer.body;
  const ids = { connection_id: String(connection_id), verifier_id: String(verifier_id) };
  return { person, id, agentId: String(body.agent_id), ...ids, declare };
}

const putKey = ({ id }: Pick<Scene, "id">, body: object = {}) =>
  api.operator("PUT", `${agentPath(id)}/key`, body);

const self = (key: unknown, at: TestApi = api) =>
  at.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": String(key) } });

const statusOf = async (key: unknown) => (await self(key)).status;

async function stateOf({ id }: Pick<Scene, "id">) {
  const { body } = await api.operator("POST", "/internal/v1/state", { external_ids: [id] });
  return (body.agents as Record<string, { key: unknown }>)[id]?.key;
}

/** Makes a key and confirms it. Returns the key and its prefix. */
async function storedKey(bot: Pick<Scene, "id">, body: object = {}) {
  const { api_key, api_key_prefix } = (await putKey(bot, body)).body;
  expect((await putKey(bot, { keep: api_key_prefix })).body.api_key).toBeNull();
  return { key: String(api_key), prefix: String(api_key_prefix) };
}

describe("the key of an agent's object", () => {
  test("acts for this agent only, and its maker in the list is the operator", async () => {
    const bot = await scene();
    const { body } = await putKey(bot);
    expect(body).toEqual({
      agent_id: bot.agentId,
      connection_id: bot.connection_id,
      api_key_prefix: String(body.api_key).slice(0, 13),
      api_key_issued_at: api.clock.now().toISOString(),
      rotation_request: null,
      api_key: expect.stringMatching(/^dpza_/),
    });
    expect((await self(body.api_key)).body).toMatchObject({ role: "agent", agent_id: bot.agentId });
    const { body: listed } = await bot.person.client.get(`/v1/service/connections/${bot.connection_id}/keys`);
    expect(listed.items).toContainEqual(
      expect.objectContaining({ api_key_prefix: body.api_key_prefix, made_with: "operator" }),
    );
  });

  test("stays the same in every answer until the operator keeps it, which then shows in the state", async () => {
    const bot = await scene();
    expect(await stateOf(bot)).toBeNull();
    const answers = await Promise.all(Array.from({ length: 4 }, () => putKey(bot)));
    const first = answers[0]!.body;
    for (const { body } of answers) expect(body).toEqual(first);
    expect(await stateOf(bot)).toBeNull();
    expect((await putKey(bot, { keep: "dpza_00000000" })).body).toEqual(first);
    const kept = { ...first, api_key: null };
    for (let time = 0; time < 2; time += 1) {
      expect((await putKey(bot, { keep: first.api_key_prefix })).body).toEqual(kept);
    }
    const { api_key_prefix, api_key_issued_at, rotation_request } = first;
    expect(await stateOf(bot)).toEqual({ api_key_prefix, api_key_issued_at, rotation_request });
    const rows = await api.db("narrow_keys").where({ agent_id: bot.agentId });
    expect(rows).toMatchObject([{ undelivered_sealed: null }]);
  });

  test("ends when a lost key is replaced, and after the grace when a rotation replaces it", async () => {
    const bot = await scene();
    const lost = await storedKey(bot);
    const second = await storedKey(bot, { grace_seconds: 60 });
    expect([await statusOf(lost.key), await statusOf(second.key)]).toEqual([200, 200]);
    api.clock.advance(60);
    expect([await statusOf(lost.key), await statusOf(second.key)]).toEqual([401, 200]);
    const third = await storedKey(bot, { request: "leaked" });
    expect([await statusOf(second.key), await statusOf(third.key)]).toEqual([401, 200]);
    expect(await stateOf(bot)).toMatchObject({ api_key_prefix: third.prefix, rotation_request: "leaked" });
    const events = (await api.events(bot.connection_id)).filter(({ event }) =>
      String(event).includes("key_"),
    );
    const [created, ended] = ["connection.key_created", "connection.key_ended"];
    expect(events).toMatchObject([
      { event: created, api_key_prefix: lost.prefix, made_with: "operator" },
      { event: ended, api_key_prefix: lost.prefix, ended_with: "operator" },
      { event: created, api_key_prefix: second.prefix },
      { event: ended, api_key_prefix: second.prefix, ended_at: api.clock.now().toISOString() },
      { event: created, api_key_prefix: third.prefix },
    ]);
    expect(Date.parse(String(events[1]?.ended_at))).toBe(api.clock.now().getTime());
  });

  test("ends in every replica together with its object, and a new object gets another key", async () => {
    const bot = await scene();
    const { key } = await storedKey(bot, { grace_seconds: 60 });
    await withReplica(api, {}, async (replica) => {
      expect((await self(key, replica)).status).toBe(200);
      for (const id of [bot.id, bot.id, newUid()]) {
        const removed = await api.operator("DELETE", `${agentPath(id)}/key`);
        expect(removed.body).toEqual({ removed: true });
      }
      expect(await statusOf(key)).toBe(401);
      await expect.poll(async () => (await self(key, replica)).status).toBe(401);
    });
    expect(await stateOf(bot)).toBeNull();
    const next = { id: newUid() };
    expect((await bot.declare(next.id)).body.agent_id).toBe(bot.agentId);
    expect((await putKey(next)).body.api_key).not.toBe(key);
  });

  test("goes to no second object: one that takes the agent over gets another key", async () => {
    const bot = await scene();
    const { body: first } = await putKey(bot);
    const next = { id: newUid() };
    await bot.declare(next.id);
    const { body: second } = await putKey(next);
    expect(second.api_key).not.toBe(first.api_key);
    expect([await statusOf(first.api_key), await statusOf(second.api_key)]).toEqual([401, 200]);
    expect(errorCode(await putKey(bot, { keep: first.api_key_prefix }))).toBe("not_found");
  });

  test("ends when a person ends it, and the next call makes another one", async () => {
    const bot = await scene();
    const { key, prefix } = await storedKey(bot);
    const path = `/v1/service/connections/${bot.connection_id}/keys/${prefix}`;
    expect((await bot.person.client.call("DELETE", path)).status).toBe(200);
    expect([await statusOf(key), await stateOf(bot)]).toEqual([401, null]);
    const { body } = await putKey(bot, { keep: prefix });
    expect([await statusOf(body.api_key), await statusOf(key)]).toEqual([200, 401]);
  });

  test("ends together with its agent, which then gets no key, and needs an accepted namespace", async () => {
    const bot = await scene();
    const { body: unstored } = await putKey(bot);
    await bot.person.client.call("DELETE", "/v1/service/namespace-bindings/c1/default");
    expect(errorCode(await putKey(bot))).toBe("namespace_not_bound");
    expect((await putKey(bot, { keep: unstored.api_key_prefix })).status).toBe(200);
    const path = `/v1/service/connections/${bot.connection_id}/agents/${bot.agentId}`;
    expect((await bot.person.client.call("DELETE", path)).status).toBe(200);
    expect(await statusOf(unstored.api_key)).toBe(401);
    expect(errorCode(await putKey(bot))).toBe("agent_disabled");
    expect(errorCode(await putKey({ id: newUid() }))).toBe("not_found");
  });

  test("exists beside as many keys as a connection may have", async () => {
    const bot = await scene();
    await storedKey(bot);
    await fillKeys(api, bot.connection_id);
    expect((await putKey(bot, { grace_seconds: 60 })).status).toBe(200);
  });

  test("has limits: two replacements in ten minutes without a request, five with, ten first keys", async () => {
    const bot = await scene();
    await storedKey(bot);
    for (let time = 0; time < 2; time += 1) await storedKey(bot);
    expect(errorCode(await putKey(bot))).toBe("action_limited");
    for (let time = 0; time < 5; time += 1) await storedKey(bot, { request: `${time}` });
    expect(errorCode(await putKey(bot, { request: "again" }))).toBe("action_limited");
    const other = await scene();
    for (let time = 0; time < 10; time += 1) {
      expect((await putKey(other)).status).toBe(200);
      await api.operator("DELETE", `${agentPath(other.id)}/key`);
    }
    expect(errorCode(await putKey(other))).toBe("action_limited");
  });
});
