import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Person, runningApi } from "../../support/api.ts";
import { createAgent, errorCode, registerPlatform } from "../../support/platform_world.ts";
import { agentPath, declaration, declarations, newUid, path } from "../declarations.ts";

const api = runningApi();
const { put, declared } = declarations(api);

const scopes = ["data:read", "data:share"];
const adoption = (platformId: string) => `/v1/service/platforms/${platformId}/adoption`;
const here = { cluster: "c1", namespace: "default", name: "shop" };

/** Registers a platform of a new person that no cluster object declares. */
async function registered(fields: object = {}) {
  const person = await api.person();
  const platform = await registerPlatform(person, { default_allowed_scopes: scopes, ...fields });
  const confirm = (place: object = here, who: Person = person) =>
    who.client.call("PUT", adoption(platform.platformId), { body: place });
  const wish = (more: object = {}) =>
    declaration(person, {
      object: { namespace: "default", name: "shop" },
      adopt: platform.platformId,
      ...more,
    });
  return { person, platform, confirm, wish };
}

const rowOf = (platformId: string) => api.db("platforms").where({ platform_id: platformId }).first();

describe("the adoption of a platform", () => {
  test("needs the owner's confirmation, which names the object and is valid once", async () => {
    const { person, platform, confirm, wish } = await registered();
    const id = newUid();
    const refused = await put(id, wish());
    expect([refused.status, errorCode(refused)]).toEqual([409, "adoption_not_confirmed"]);
    for (const other of [{ cluster: "c2" }, { namespace: "team-a" }, { name: "store" }]) {
      expect((await confirm({ ...here, ...other })).status).toBe(200);
      expect(errorCode(await put(id, wish()))).toBe("adoption_not_confirmed");
    }
    const confirmed = await confirm();
    expect(confirmed.body).toEqual({
      ...here,
      confirmed_at: expect.any(String),
      confirmed_by: person.email,
    });
    const waiting = async () => (await person.client.get(adoption(platform.platformId))).body;
    expect(await waiting()).toEqual({ adoption: confirmed.body });
    const taken = await put(id, wish());
    expect([taken.status, taken.body.platform_id]).toEqual([200, platform.platformId]);
    expect(await put(id, wish())).toMatchObject({ status: 200, body: taken.body });
    expect(await put(id, wish({ adopt: undefined }))).toMatchObject({ status: 200, body: taken.body });
    expect(await waiting()).toEqual({ adoption: null });
    expect(errorCode(await put(newUid(), wish({ object: { namespace: "default", name: "other" } })))).toBe(
      "adoption_not_confirmed",
    );
  });

  test("keeps id, connection and key, and returns no secret until the key is rotated", async () => {
    const { platform, confirm, wish } = await registered();
    const id = newUid();
    await confirm();
    const taken = await put(id, wish());
    expect(taken.body).toMatchObject({
      connection_id: platform.connectionId,
      api_key_prefix: platform.apiKey.slice(0, 12),
      credentials: null,
    });
    const agents = `/v1/service/connections/${platform.connectionId}/agents`;
    const listed = () => api.client().get(agents, { headers: { "x-service-api-key": platform.apiKey } });
    expect((await listed()).status).toBe(200);
    const rotated = await api.operator("POST", `${path(id)}/credentials/rotate`, { grace_seconds: 60 });
    expect(rotated.body.credentials).toMatchObject({ api_key: expect.stringMatching(/^dpz_/) });
    expect((await listed()).status).toBe(200);
  });

  test("fails with the same message for a different account's platform and for a platform that does not exist", async () => {
    const [mine, theirs] = [await registered(), await registered()];
    await theirs.confirm();
    const unknown = randomUUID();
    const refusalOf = async (adopt: string) => {
      const answer = await put(newUid(), mine.wish({ adopt }));
      return [answer.status, errorCode(answer), String(answer.body.error_description).replace(adopt, "…")];
    };
    expect(await refusalOf(theirs.platform.platformId)).toEqual(await refusalOf(unknown));
    expect((await rowOf(theirs.platform.platformId))?.external_id).toBeNull();
    expect(errorCode(await mine.confirm(here, theirs.person))).toBe("not_found");
    const withdrawal = await theirs.person.client.call("DELETE", adoption(mine.platform.platformId));
    expect(errorCode(withdrawal)).toBe("not_found");
  });

  test("fails for a platform that a deleted object of the same name in a different account left behind", async () => {
    const object = { namespace: "default", name: "shop" };
    const { id, answer } = await declared({ object });
    const mine = await registered();
    const adopt = String(answer.body.platform_id);
    expect(errorCode(await put(newUid(), mine.wish({ adopt })))).toBe("adoption_not_confirmed");
    expect((await rowOf(adopt))?.external_id).toBe(id);
  });

  test("fails for a platform that a deleted object of the same name in a different namespace left behind", async () => {
    const { person, id, answer } = await declared({ object: { namespace: "default", name: "shop" } });
    await person.client.call("PUT", "/v1/service/namespace-bindings/c1/team-a", { body: {} });
    const adopt = String(answer.body.platform_id);
    const wish = declaration(person, { object: { namespace: "team-a", name: "shop" }, adopt });
    expect(errorCode(await put(newUid(), wish))).toBe("adoption_not_confirmed");
    expect((await rowOf(adopt))?.external_id).toBe(id);
  });

  test("keeps the platform's ceiling for the next object, too, even if an earlier object had a narrower ceiling", async () => {
    const person = await api.person({ organization_name: "Analytical Engines" });
    const object = { namespace: "default", name: "shop" };
    const former = newUid();
    await put(former, declaration(person, { object, default_allowed_scopes: ["data:read"] }));
    await api.operator("DELETE", path(former));
    expect(errorCode(await put(newUid(), declaration(person, { object })))).toBe("ceiling_widened");
    const wide = await registerPlatform(person, { default_allowed_scopes: scopes }, "/v1/service/platforms");
    await person.client.call("PUT", adoption(wide.platformId), { body: here });
    const id = newUid();
    const taken = await put(id, declaration(person, { object, adopt: wide.platformId, name: "Shop" }));
    expect(taken.body.default_allowed_scopes).toEqual(scopes);
    await api.operator("DELETE", path(id));
    expect((await put(newUid(), declaration(person, { object }))).body.default_allowed_scopes).toEqual(
      scopes,
    );
  });

  test("fails after the owner has withdrawn the confirmation", async () => {
    const { person, platform, confirm, wish } = await registered();
    await confirm();
    const withdraw = () => person.client.call("DELETE", adoption(platform.platformId));
    for (let time = 0; time < 2; time += 1) {
      expect((await withdraw()).body).toEqual({ confirmed: false });
    }
    expect(errorCode(await put(newUid(), wish()))).toBe("adoption_not_confirmed");
  });

  test("changes nothing if another part of the declaration is refused, and the confirmation stays valid", async () => {
    const { platform, confirm, wish } = await registered();
    await confirm();
    for (const [fields, code] of [
      [{ default_allowed_scopes: [...scopes, "payments:send"] }, "ceiling_widened"],
      [{ surface_type: "meetings" }, "external_conflict"],
      [{ callback_url: "https://10.0.0.1/" }, "invalid_callback_url"],
    ] as const) {
      const id = newUid();
      expect(errorCode(await put(id, wish(fields)))).toBe(code);
      const state = await api.operator("POST", "/internal/v1/state", { external_ids: [id] });
      expect(state.body.platforms).toEqual({});
    }
    expect((await rowOf(platform.platformId))?.external_id).toBeNull();
    expect((await put(newUid(), wish())).status).toBe(200);
  });

  test("needs an accepted namespace, and a ceiling within the namespace's ceiling", async () => {
    const { person, confirm, wish } = await registered();
    const place = { namespace: "team-a", name: "shop" };
    await confirm({ cluster: "c1", ...place });
    expect(errorCode(await put(newUid(), wish({ object: place })))).toBe("namespace_not_bound");
    const accept = { body: { ceiling: ["data:read"] } };
    await person.client.call("PUT", "/v1/service/namespace-bindings/c1/team-a", accept);
    expect(errorCode(await put(newUid(), wish({ object: place })))).toBe("ceiling_exceeded");
    const narrow = wish({ object: place, default_allowed_scopes: ["data:read"] });
    expect((await put(newUid(), narrow)).body.default_allowed_scopes).toEqual(["data:read"]);
  });

  test("leaves the former object without a platform, and that object cannot register a new platform", async () => {
    const {
      person,
      id: former,
      answer,
    } = await declared({ object: { namespace: "default", name: "former" } });
    const platformId = String(answer.body.platform_id);
    await person.client.call("PUT", adoption(platformId), { body: here });
    const next = newUid();
    const wish = declaration(person, { object: { namespace: "default", name: "shop" }, adopt: platformId });
    expect((await put(next, wish)).status).toBe(200);
    const again = declaration(person, { object: { namespace: "default", name: "former" } });
    expect(errorCode(await put(former, again))).toBe("external_conflict");
    expect(errorCode(await api.operator("POST", `${path(former)}/credentials/rotate`))).toBe("not_found");
    expect((await api.operator("DELETE", path(former))).body).toEqual({ removed: true });
    expect((await rowOf(platformId))?.removed_at).toBeNull();
    await person.client.call("PUT", adoption(platformId), {
      body: { cluster: "c1", namespace: "default", name: "former" },
    });
    expect((await put(former, { ...again, adopt: platformId })).body.platform_id).toBe(platformId);
  });

  test("fails for an object that already has a platform, and under a name that is in use", async () => {
    const client = await api.person({ organization_name: "Analytical Engines" });
    const one = await registerPlatform(client, { default_allowed_scopes: scopes }, "/v1/service/platforms");
    const wish = (adopt?: string) =>
      declaration(client, { object: { namespace: "default", name: "shop" }, ...(adopt && { adopt }) });
    const id = newUid();
    expect((await put(id, wish())).status).toBe(200);
    await client.client.call("PUT", adoption(one.platformId), { body: here });
    for (const each of [id, newUid()]) {
      expect(errorCode(await put(each, wish(one.platformId)))).toBe("external_conflict");
    }
    expect((await rowOf(one.platformId))?.external_id).toBeNull();
  });

  test("succeeds once when 8 calls race", async () => {
    const { platform, confirm, wish } = await registered();
    await confirm();
    const id = newUid();
    const answers = await Promise.all(Array.from({ length: 8 }, () => put(id, wish())));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(new Set(answers.map(({ body }) => body.platform_id))).toEqual(new Set([platform.platformId]));
  });
});

describe("a platform that a deleted object left behind", () => {
  const object = { namespace: "default", name: "shop" };

  test("passes to the next object of the same name only if its whole declaration is accepted", async () => {
    const { person, id, answer } = await declared({ object });
    const next = newUid();
    const wide = declaration(person, { object, default_allowed_scopes: [...scopes, "payments:send"] });
    expect(errorCode(await put(next, wide))).toBe("ceiling_widened");
    const refused = declaration(person, { object, callback_url: "ftp://x/" });
    expect(errorCode(await put(next, refused))).toBe("invalid_callback_url");
    expect((await rowOf(String(answer.body.platform_id)))?.external_id).toBe(id);
    expect((await put(next, declaration(person, { object }))).body.platform_id).toBe(answer.body.platform_id);
  });

  test("needs no confirmation if the new declaration names the platform", async () => {
    const { person, answer } = await declared({ object });
    const adopt = String(answer.body.platform_id);
    expect((await put(newUid(), declaration(person, { object, adopt }))).body.platform_id).toBe(adopt);
  });
});

describe("the adoption of an agent", () => {
  const wish = (platform: string, adopt?: string, more: object = {}) => ({
    platform_external_id: platform,
    name: "bot",
    agent_type: "api_agent",
    ...(adopt && { adopt }),
    ...more,
  });
  const place = { cluster: "c1", namespace: "default", name: "bot" };

  async function withAgent() {
    const { person, id, answer, credentials } = await declared();
    const connectionId = String(answer.body.connection_id);
    const platform = { connectionId, apiKey: credentials.api_key! } as Parameters<typeof createAgent>[1];
    const agentId = await createAgent(api.client(), platform);
    const adoption = `/v1/service/connections/${connectionId}/agents/${agentId}/adoption`;
    const confirm = (body: object = place) => person.client.call("PUT", adoption, { body });
    const object = { namespace: "default", name: "bot" };
    const putAgent = (agent: string, more: object = {}) =>
      api.operator("PUT", agentPath(agent), wish(id, agentId, { object, ...more }));
    return { person, id, agentId, adoption, confirm, putAgent };
  }

  test("needs the owner's confirmation, and keeps the agent's key", async () => {
    const { agentId, confirm, putAgent } = await withAgent();
    const id = newUid();
    expect(errorCode(await putAgent(id))).toBe("adoption_not_confirmed");
    expect((await confirm()).body).toMatchObject({ ...place, confirmed_at: expect.any(String) });
    expect(errorCode(await putAgent(id, { agent_type: "robot" }))).toBe("external_conflict");
    for (let time = 0; time < 2; time += 1) {
      expect((await putAgent(id, { name: "Renamed" })).body).toMatchObject({
        agent_id: agentId,
        name: "Renamed",
      });
    }
    expect(await api.db("adoptions").where({ adopted_id: agentId })).toEqual([]);
    const other = { object: { namespace: "default", name: "other" } };
    expect(errorCode(await putAgent(newUid(), other))).toBe("adoption_not_confirmed");
  });

  test("fails after the confirmation is withdrawn, for a deleted agent, and for an agent in a different account", async () => {
    const { person, adoption, confirm, putAgent, agentId } = await withAgent();
    const elsewhere = await withAgent();
    await confirm();
    expect((await person.client.call("DELETE", adoption)).body).toEqual({ confirmed: false });
    expect(errorCode(await putAgent(newUid()))).toBe("adoption_not_confirmed");
    await confirm();
    expect(errorCode(await elsewhere.putAgent(newUid(), { adopt: agentId }))).toBe("adoption_not_confirmed");
    await person.client.call("DELETE", adoption.replace("/adoption", ""));
    expect(errorCode(await putAgent(newUid()))).toBe("adoption_not_confirmed");
    expect(errorCode(await confirm())).toBe("not_found");
    expect(errorCode(await elsewhere.person.client.call("PUT", adoption, { body: place }))).toBe("not_found");
  });

  test("fails for an agent of a different platform of the account", async () => {
    const person = await api.person({ organization_name: "Analytical Engines" });
    const elsewhere = await registerPlatform(person, {}, "/v1/service/platforms");
    const agentId = await createAgent(api.client(), elsewhere);
    const confirmation = `/v1/service/connections/${elsewhere.connectionId}/agents/${agentId}/adoption`;
    await person.client.call("PUT", confirmation, { body: place });
    const id = newUid();
    await put(id, declaration(person));
    const object = { namespace: "default", name: "bot" };
    const refused = await api.operator("PUT", agentPath(newUid()), wish(id, agentId, { object }));
    expect(errorCode(refused)).toBe("adoption_not_confirmed");
    expect((await api.db("agents").where({ agent_id: agentId }).first())?.external_id).toBeNull();
  });

  test("leaves the former object without an agent, and fails for an object that already has an agent", async () => {
    const { confirm, putAgent, id: platform } = await withAgent();
    const [former, next] = [newUid(), newUid()];
    await confirm();
    await putAgent(former);
    const other = { object: { namespace: "default", name: "other" } };
    await confirm({ ...place, name: "other" });
    expect((await putAgent(next, other)).status).toBe(200);
    const made = wish(platform, undefined, { object: { namespace: "default", name: "bot" } });
    expect(errorCode(await api.operator("PUT", agentPath(former), made))).toBe("external_conflict");
    const fresh = newUid();
    expect((await api.operator("PUT", agentPath(fresh), made)).status).toBe(200);
    expect(errorCode(await putAgent(fresh))).toBe("external_conflict");
  });
});

describe("a platform that moves to another cluster", () => {
  test("keeps its agents if they are declared under the same names", async () => {
    const { person, id, answer } = await declared({ object: { namespace: "default", name: "shop" } });
    const agent = { platform_external_id: id, name: "bot", agent_type: "api_agent" };
    const object = { namespace: "default", name: "bot" };
    const before = await api.operator("PUT", agentPath(newUid()), { ...agent, object });
    const platformId = String(answer.body.platform_id);
    await person.client.call("PUT", adoption(platformId), { body: { ...here, cluster: "c2" } });
    await person.client.call("PUT", "/v1/service/namespace-bindings/c2/default", { body: {} });
    const options = { cluster: "c2" };
    const [moved, bot] = [`c2.${randomUUID()}`, `c2.${randomUUID()}`];
    const wish = declaration(person, { object: { namespace: "default", name: "shop" }, adopt: platformId });
    expect((await put(moved, wish, options)).body.platform_id).toBe(platformId);
    const after = await api.operator(
      "PUT",
      agentPath(bot),
      { ...agent, platform_external_id: moved, object },
      options,
    );
    expect(after.body.agent_id).toBe(before.body.agent_id);
  });
});
