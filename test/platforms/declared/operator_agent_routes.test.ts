import { afterEach, describe, expect, test } from "vitest";
import { VaultUnavailable } from "../../../src/vault/client.ts";
import { leaderOf, runningApi } from "../../support/api.ts";
import { errorCode } from "../../support/platform_world.ts";
import { agentPath, declaration, declarations, newUid, path } from "../declarations.ts";

const api = runningApi();
afterEach(() => {
  api.vault.failure = undefined;
});

const { put, declared } = declarations(api);

describe("PUT /internal/v1/agents/{external_id}", () => {
  const wish = (platform: string, fields = {}) => ({
    platform_external_id: platform,
    name: "bot",
    agent_type: "api_agent",
    ...fields,
  });

  test("creates the agent once, renames it later, and never restores a deleted agent", async () => {
    const { id: platform } = await declared();
    const id = newUid();
    const created = await api.operator("PUT", agentPath(id), wish(platform));
    expect(created.body).toEqual({
      agent_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      name: "bot",
      agent_type: "api_agent",
      custody_mode: "custodial",
      public_key_json: { ed25519: expect.any(String), ml_dsa_65: expect.any(String) },
      disabled: false,
    });
    const races = await Promise.all(
      Array.from({ length: 4 }, () => api.operator("PUT", agentPath(id), wish(platform))),
    );
    for (const { body } of races) expect(body).toEqual(created.body);
    const renamed = await api.operator("PUT", agentPath(id), wish(platform, { name: "renamed" }));
    expect(renamed.body).toEqual({ ...created.body, name: "renamed" });
    for (const each of [id, id, newUid()]) {
      expect((await api.operator("DELETE", agentPath(each))).body).toEqual({ removed: true });
    }
    expect((await api.operator("PUT", agentPath(id), wish(platform))).body).toMatchObject({
      agent_id: created.body.agent_id,
      disabled: true,
    });
    expect(api.vault.keys.get(String(created.body.agent_id))!.disabled).toBe(true);
  });

  test("creates at most ten agents of one name in ten minutes, and others of other names", async () => {
    const { id: platform } = await declared();
    const create = async (name: string) => {
      const id = newUid();
      const object = { namespace: "default", name };
      const answer = await api.operator("PUT", agentPath(id), wish(platform, { object }));
      await api.operator("DELETE", agentPath(id));
      return answer.status === 200 ? "created" : errorCode(answer);
    };
    for (let count = 0; count < 10; count += 1) expect(await create("bot")).toBe("created");
    const keys = api.vault.keys.size;
    expect(await create("bot")).toBe("action_limited");
    expect(api.vault.keys.size).toBe(keys);
    expect(await create("other")).toBe("created");
  });

  test("stores the object's name for an agent that was registered before names were stored", async () => {
    const { id: platform } = await declared();
    const id = newUid();
    const put = () => {
      const object = { namespace: "default", name: "bot" };
      return api.operator("PUT", agentPath(id), wish(platform, { object }));
    };
    const created = await put();
    await api.db("agents").where({ external_id: id }).update({ object_name: null });
    expect((await put()).body).toEqual(created.body);
    expect((await api.db("agents").where({ external_id: id }).first())?.object_name).toBe("bot");
  });

  test("creates one agent when 8 first calls race", async () => {
    const { id: platform } = await declared();
    const id = newUid();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => api.operator("PUT", agentPath(id), wish(platform))),
    );
    expect(new Set(answers.map(({ body }) => body.agent_id)).size).toBe(1);
    expect(await api.db("agents").where({ external_id: id })).toHaveLength(1);
  });

  test("refuses a different platform or type for a registered object", async () => {
    const [one, two] = [await declared(), await declared()];
    const id = newUid();
    await api.operator("PUT", agentPath(id), wish(one.id));
    expect(errorCode(await api.operator("PUT", agentPath(id), wish(two.id)))).toBe("external_conflict");
    const robot = wish(one.id, { agent_type: "robot" });
    expect(errorCode(await api.operator("PUT", agentPath(id), robot))).toBe("external_conflict");
  });

  test("refuses an agent that would hold its own key", async () => {
    const { id: platform } = await declared();
    const put = (more: object) => api.operator("PUT", agentPath(newUid()), { ...wish(platform), ...more });
    expect(errorCode(await put({ custody_mode: "self_custody" }))).toBe("not_available");
    expect(errorCode(await put({ public_key_json: { ed25519: "A" } }))).toBe("invalid_request");
    expect((await put({ custody_mode: "custodial" })).status).toBe(200);
  });

  test("needs a registered platform and an available vault", async () => {
    expect(errorCode(await api.operator("PUT", agentPath(newUid()), wish(newUid())))).toBe("not_found");
    const { id: platform } = await declared();
    const id = newUid();
    api.vault.failure = new VaultUnavailable("sealed", "sealed");
    expect(errorCode(await api.operator("PUT", agentPath(id), wish(platform)))).toBe("vault_unavailable");
    api.vault.failure = undefined;
    expect((await api.operator("PUT", agentPath(id), wish(platform))).status).toBe(200);
    await api.operator("DELETE", path(platform));
    expect(errorCode(await api.operator("PUT", agentPath(newUid()), wish(platform)))).toBe("not_found");
  });
});

describe("the operator routes", () => {
  test("hide a cluster's objects from the operator of a different cluster, and reject that operator's changes", async () => {
    const { person, id } = await declared();
    const agent = newUid();
    const options = { cluster: "c2" };
    for (const [method, target, body] of [
      ["PUT", path(id), declaration(person)],
      ["DELETE", path(id), undefined],
      ["POST", `${path(id)}/credentials/rotate`, undefined],
      ["POST", `${path(id)}/credentials/acknowledge`, { api_key_prefix: "dpz_00000000" }],
      ["PUT", agentPath(agent), { platform_external_id: id, name: "b", agent_type: "robot" }],
      ["DELETE", agentPath(agent), undefined],
      ["PUT", `${agentPath(agent)}/key`, {}],
      ["DELETE", `${agentPath(agent)}/key`, undefined],
      ["PUT", agentPath("c2.x"), { platform_external_id: id, name: "b", agent_type: "robot" }],
      ["PUT", path("c2."), declaration(person)],
      ["PUT", path("c22.x"), declaration(person)],
    ] as const) {
      const answer = await api.operator(method, target, body, options);
      expect([target, answer.status, errorCode(answer)]).toEqual([target, 404, "not_found"]);
    }
    expect((await put(id, declaration(person))).body.credentials).not.toBeNull();
  });

  test("require a token, and refuse an older leader", async () => {
    const person = await api.person();
    const wrong = await put(newUid(), declaration(person), { token: "wrong" });
    expect([wrong.status, errorCode(wrong)]).toEqual([401, "operator_unauthorized"]);
    const cluster = "c9";
    const former = await leaderOf(api, cluster);
    await api.operator("POST", "/internal/v1/leadership", { holder: "pod-2" }, { cluster });
    const stale = await api.operator("DELETE", path("c9.x"), undefined, { cluster, epoch: former });
    expect([stale.status, errorCode(stale)]).toEqual([409, "stale_epoch"]);
  });
});
