import { beforeEach, describe, expect, test } from "vitest";
import { listBindings } from "../../src/clusters/namespace_binding.ts";
import { type Person, runningApi } from "../support/api.ts";
import { BINDINGS, namespaces, newId, seen } from "./namespaces.ts";

const DAY = 24 * 3600;
const api = runningApi();
let person: Person;
const { declare, accept } = namespaces(api, () => person);

describe("a namespace that acts for an account", () => {
  beforeEach(async () => {
    person = await api.person({ organization_name: "Analytical Engines" });
  });

  const bindings = async (who = person) =>
    (await who.client.get(BINDINGS)).body.namespace_bindings as Record<string, unknown>[];

  test("registers nothing before the account's owner accepts it", async () => {
    const refused = await declare("shop");
    expect(seen(refused)).toEqual([404, "namespace_not_bound"]);
    expect(refused.text).toContain("/v1/service/namespace-bindings/c1/shop");
    expect(await bindings()).toMatchObject([
      { namespace: "shop", cluster: "c1", status: "asking", accepted_at: null },
      { namespace: "default", status: "accepted" },
    ]);
    const accepted = await accept("c1/shop", { ceiling: ["data:*", "payments:*"], four_eyes: true });
    expect(accepted.body).toMatchObject({
      status: "accepted",
      ceiling: ["data:*", "payments:*"],
      four_eyes: true,
    });
    expect((await declare("shop")).status).toBe(200);
  });

  test("needs an acceptance for each cluster", async () => {
    await accept("c1/shop");
    expect(seen(await declare("shop", { id: newId("c2") }))).toEqual([404, "namespace_not_bound"]);
  });

  test("needs an acceptance by the owner of that account", async () => {
    const stranger = await api.person();
    await accept("c1/shop", {}, stranger);
    expect(seen(await declare("shop"))).toEqual([404, "namespace_not_bound"]);
    expect((await bindings(stranger)).map(({ namespace }) => namespace)).toEqual(["default", "shop"]);
  });

  test("gets the same answer whether or not the address has an account", async () => {
    const unknown = await declare("shop", { email: "nobody@example.test" });
    const unaccepted = await declare("shop");
    expect(unknown.text.replaceAll(/"request_id":"[^"]*"/g, "")).toBe(
      unaccepted.text.replaceAll(/"request_id":"[^"]*"/g, ""),
    );
    const halfway = api.client();
    await halfway.signIn("halfway@example.test");
    expect(seen(await declare("shop", { email: "halfway@example.test" }))).toEqual([
      404,
      "namespace_not_bound",
    ]);
  });

  test("cannot exceed the accepted ceiling, for agents or for accepted principals", async () => {
    await accept("c1/shop", { ceiling: ["data:*"] });
    expect(seen(await declare("shop"))).toEqual([400, "ceiling_exceeded"]);
    const other = await api.person();
    const accepted_principals = [{ human_id: other.humanId, scopes: ["payments:send"] }];
    const data = { default_allowed_scopes: ["data:read"] };
    expect(seen(await declare("shop", { ...data, accepted_principals }))).toEqual([400, "ceiling_exceeded"]);
    expect((await declare("shop", data)).status).toBe(200);
  });

  test("cannot request scopes beyond a narrowed ceiling, or anything once its acceptance is withdrawn", async () => {
    await accept("c1/shop");
    const platform = newId();
    const agent = newId();
    await declare("shop", { id: platform });
    const object = (name: string) => ({ namespace: "shop", name });
    await api.operator("PUT", `/internal/v1/agents/${agent}`, {
      object: object("bot"),
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
    const ask = (scope: string) =>
      api.operator("PUT", `/internal/v1/delegations/${newId()}`, {
        object: object("help"),
        platform_external_id: platform,
        agent_external_id: agent,
        requested_scope: [scope],
      });
    expect((await ask("payments:send")).status).toBe(200);
    await accept("c1/shop", { ceiling: ["data:*"] });
    expect(seen(await ask("payments:send"))).toEqual([400, "ceiling_exceeded"]);
    expect((await ask("data:read")).status).toBe(200);
    expect((await person.client.call("DELETE", `${BINDINGS}/c1/shop`)).body).toEqual({
      cluster: "c1",
      namespace: "shop",
      accepted: false,
    });
    expect(seen(await ask("data:read"))).toEqual([404, "namespace_not_bound"]);
    expect(seen(await person.client.call("DELETE", `${BINDINGS}/c1/shop`))).toEqual([404, "not_found"]);
  });

  test("gets no key and no agent after its acceptance is withdrawn, but can still revoke", async () => {
    await accept("c1/shop");
    const [platform, agent, delegation] = [newId(), newId(), newId()];
    const declared = await declare("shop", { id: platform });
    const call = (method: string, of: string, body?: object) =>
      api.operator(method, `/internal/v1/${of}`, body ?? {});
    const putAgent = (id: string, name: string, shown = "bot") =>
      call("PUT", `agents/${id}`, {
        object: { namespace: "shop", name },
        platform_external_id: platform,
        name: shown,
        agent_type: "robot",
      });
    await putAgent(agent, "bot");
    await call("PUT", `delegations/${delegation}`, {
      object: { namespace: "shop", name: "help" },
      platform_external_id: platform,
      agent_external_id: agent,
      requested_scope: ["data:read"],
    });
    await person.client.call("DELETE", `${BINDINGS}/c1/shop`);
    const notBound = [404, "namespace_not_bound"];
    const rotated = await call("POST", `platforms/${platform}/credentials/rotate`);
    expect(seen(rotated)).toEqual(notBound);
    expect(rotated.text).not.toContain("dpz_");
    expect(seen(await putAgent(newId(), "other"))).toEqual(notBound);
    expect(seen(await putAgent(newId(), "bot"))).toEqual(notBound);
    expect(seen(await putAgent(agent, "bot", "Payroll"))).toEqual(notBound);
    expect((await putAgent(agent, "bot")).status).toBe(200);
    expect(seen(await call("DELETE", `agents/${agent}`))).toEqual(notBound);
    expect(seen(await call("DELETE", `platforms/${platform}`))).toEqual(notBound);
    const shown = await person.client.get(`/v1/service/platforms/${String(declared.body.platform_id)}`);
    expect(shown.body).toMatchObject({ api_key_prefix: declared.body.api_key_prefix });
    const ended = await call("POST", `delegations/${delegation}/revoke`);
    expect(ended.body).toMatchObject({ status: "withdrawn" });
  });

  test("cannot give its platforms to agents or delegations of a different namespace", async () => {
    await accept("c1/shop");
    const platform = newId();
    await declare("shop", { id: platform });
    const answer = await api.operator("PUT", `/internal/v1/agents/${newId()}`, {
      object: { namespace: "default", name: "bot" },
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
    expect(seen(answer)).toEqual([409, "external_conflict"]);
    const agent = newId();
    await api.operator("PUT", `/internal/v1/agents/${agent}`, {
      object: { namespace: "shop", name: "bot" },
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
    const asked = await api.operator("PUT", `/internal/v1/delegations/${newId()}`, {
      object: { namespace: "default", name: "help" },
      platform_external_id: platform,
      agent_external_id: agent,
      requested_scope: ["data:read"],
    });
    expect(seen(asked)).toEqual([409, "external_conflict"]);
    expect(seen(await declare("default", { id: platform }))).toEqual([409, "external_conflict"]);
    expect(seen(await declare("shop", { id: platform, name: "other" }))).toEqual([409, "external_conflict"]);
  });

  test("counts toward a limit of 1,000; at the limit, acceptances can still be changed and withdrawn", async () => {
    await api.db("namespace_bindings").insert(
      Array.from({ length: 998 }, (_, n) => ({
        account_id: person.accountId,
        cluster_id: "c1",
        namespace: `team-${n}`,
        ceiling: null,
        four_eyes: false,
        asked_at: api.clock.now(),
        accepted_at: api.clock.now(),
      })),
    );
    for (let n = 0; n < 11; n += 1) await declare(`asks-${n}`, { id: newId("c3") });
    expect((await accept("c1/last")).status).toBe(200);
    expect(seen(await accept("c1/beyond"))).toEqual([409, "namespace_limit"]);
    expect((await accept("c1/last", { four_eyes: true })).body.four_eyes).toBe(true);
    await person.client.call("DELETE", `${BINDINGS}/c1/last`);
    expect((await accept("c1/beyond")).status).toBe(200);
  });

  test("owns Platforms registered before namespaces were recorded, once it declares them again", async () => {
    await accept("c1/shop");
    const id = newId();
    const first = await declare("shop", { id });
    const row = { platform_id: String(first.body.platform_id) };
    await api.db("platforms").where(row).update({ object_namespace: null, object_name: null });
    expect((await declare("shop", { id })).body.platform_id).toBe(first.body.platform_id);
    expect(await api.db("platforms").where(row).first()).toMatchObject({
      object_namespace: "shop",
      object_name: "shop",
    });
    expect(seen(await declare("default", { id }))).toEqual([409, "external_conflict"]);
  });

  describe("with an open request", () => {
    const ask = async (namespaces: string[], cluster = "c3") => {
      for (const namespace of namespaces) await declare(namespace, { id: newId(cluster) });
    };
    /** Reads the database instead of the API, because the session would have expired by then. */
    const asking = async () =>
      (await listBindings(api, person.accountId))
        .filter(({ accepted_at }) => accepted_at === null)
        .map(({ namespace }) => namespace);

    test("appears with the nine newest requests of its cluster, and displaces no request of a different cluster", async () => {
      await ask(["mine"], "c4");
      for (let n = 0; n < 12; n += 1) {
        api.clock.advance(1);
        await ask([`team-${n}`]);
      }
      const shown = await asking();
      expect(shown).toHaveLength(11);
      expect(shown).toContain("mine");
      expect(shown).toContain("team-11");
      expect(shown).not.toContain("team-1");
    });

    test("updates the time of its request once an hour", async () => {
      const noted = async () => (await listBindings(api, person.accountId))[0]?.asked_at;
      await ask(["team"]);
      const first = await noted();
      api.clock.advance(3_600);
      await ask(["team"]);
      expect(await noted()).toEqual(first);
      api.clock.advance(1);
      await ask(["team"]);
      expect(await noted()).toEqual(api.clock.now());
    });

    test("disappears from the list after 14 days, and appears again with its next request", async () => {
      await ask(["old"]);
      api.clock.advance(14 * DAY + 1);
      expect(await asking()).toEqual([]);
      await ask(["old"]);
      expect(await asking()).toEqual(["old"]);
    });
  });

  test.each<[string, string, object, [number, string]]>([
    ["a cluster of other characters", "c_1/shop", {}, [404, "not_found"]],
    ["an invalid namespace", "c1/Shop", {}, [404, "not_found"]],
    ["an empty ceiling", "c1/shop", { ceiling: [] }, [400, "invalid_request"]],
    ["unknown scopes", "c1/shop", { ceiling: ["data:fly"] }, [400, "invalid_scopes"]],
  ])("cannot be accepted with %s", async (_, place, body, expected) => {
    expect(seen(await accept(place, body))).toEqual(expected);
  });
});
