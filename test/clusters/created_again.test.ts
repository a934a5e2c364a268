import { beforeEach, describe, expect, test } from "vitest";
import { type Person, runningApi } from "../support/api.ts";
import { BINDINGS, namespaces, newId, seen } from "./namespaces.ts";

const api = runningApi();
let person: Person;
const { declare, accept } = namespaces(api, () => person);

describe("a Platform that is recreated after its deletion", () => {
  const before = { default_allowed_scopes: ["data:read", "payments:send"] };
  const wider = { default_allowed_scopes: ["data:read", "payments:send", "data:share"] };
  beforeEach(async () => {
    person = await api.person({ organization_name: "Analytical Engines" });
    await accept("c1/shop");
  });

  test("gets the retained platform and its key", async () => {
    const first = await declare("shop", before);
    const again = await declare("shop", { ...before, description: "again" });
    for (const field of ["platform_id", "connection_id", "api_key_prefix"]) {
      expect(again.body[field]).toBe(first.body[field]);
    }
  });

  test("gets the retained agents", async () => {
    const [platform, agent, next] = [newId(), newId(), newId()];
    const put = (id: string, of: string) =>
      api.operator("PUT", `/internal/v1/agents/${id}`, {
        object: { namespace: "shop", name: "bot" },
        platform_external_id: of,
        name: "bot",
        agent_type: "robot",
      });
    await declare("shop", { id: platform });
    const first = await put(agent, platform);
    await declare("shop", { id: next });
    expect((await put(newId(), next)).body.agent_id).toBe(first.body.agent_id);
  });

  test("gets no agent of a different name or type, and no agent that its owner has deleted", async () => {
    const platform = newId();
    const declared = await declare("shop", { id: platform });
    const put = async (name: string, agent_type: string) => {
      const answer = await api.operator("PUT", `/internal/v1/agents/${newId()}`, {
        object: { namespace: "shop", name },
        platform_external_id: platform,
        name,
        agent_type,
      });
      expect(answer.body).toMatchObject({ agent_type, disabled: false });
      return String(answer.body.agent_id);
    };
    const ids = [await put("bot", "robot"), await put("other", "robot"), await put("bot", "voice_agent")];
    expect(new Set(ids).size).toBe(3);
    const path = `/v1/service/connections/${String(declared.body.connection_id)}/agents/${ids[0]}`;
    expect((await person.client.call("DELETE", path)).status).toBe(200);
    expect(ids).not.toContain(await put("bot", "robot"));
  });

  test("cannot have a wider ceiling than the retained platform", async () => {
    await declare("shop", before);
    expect(seen(await declare("shop", wider))).toEqual([400, "ceiling_widened"]);
    expect((await declare("shop", before)).status).toBe(200);
  });

  test("cannot have a wider ceiling than the removed platform last had", async () => {
    const id = newId();
    await declare("shop", { id, ...before });
    await api.operator("DELETE", `/internal/v1/platforms/${id}`);
    expect(seen(await declare("shop", wider))).toEqual([400, "ceiling_widened"]);
    const next = newId();
    const narrow = { default_allowed_scopes: ["data:read"] };
    expect((await declare("shop", { id: next, ...narrow })).status).toBe(200);
    await api.operator("DELETE", `/internal/v1/platforms/${next}`);
    expect(seen(await declare("shop", before))).toEqual([400, "ceiling_widened"]);
  });

  test.each(["the operator", "its owner"])(
    "cannot exceed the ceiling that its owner narrowed, even if %s removed the platform",
    async (who) => {
      const id = newId();
      const { platform_id, connection_id } = (await declare("shop", { id, ...before })).body;
      const narrow = { default_allowed_scopes: ["data:read"] };
      const path = `/v1/service/platforms/${String(platform_id)}`;
      expect((await person.client.call("PATCH", path, { body: narrow })).status).toBe(200);
      api.clock.advance(1);
      if (who === "the operator") await api.operator("DELETE", `/internal/v1/platforms/${id}`);
      else await person.client.call("DELETE", `/v1/service/connections/${String(connection_id)}`);
      await accept("c1/shop", { four_eyes: true });
      expect(seen(await declare("shop", before))).toEqual([400, "ceiling_widened"]);
      expect((await declare("shop", narrow)).status).toBe(200);
    },
  );

  test("cannot have a wider ceiling than the last of several removed platforms", async () => {
    const first = newId();
    await declare("shop", { ...before, id: first });
    api.clock.advance(1);
    await api.operator("DELETE", `/internal/v1/platforms/${first}`);
    const second = newId();
    const { platform_id } = (await declare("shop", { ...before, id: second })).body;
    const narrow = { body: { default_allowed_scopes: ["data:read"] } };
    await person.client.call("PATCH", `/v1/service/platforms/${String(platform_id)}`, narrow);
    api.clock.advance(1);
    await api.operator("DELETE", `/internal/v1/platforms/${second}`);
    expect(seen(await declare("shop", before))).toEqual([400, "ceiling_widened"]);
  });

  test("can exceed the former ceiling after its owner withdrew and renewed the acceptance", async () => {
    const id = newId();
    await declare("shop", { id, ...before });
    await api.operator("DELETE", `/internal/v1/platforms/${id}`);
    await person.client.call("DELETE", `${BINDINGS}/c1/shop`);
    await accept("c1/shop");
    expect((await declare("shop", wider)).status).toBe(200);
  });

  test("counts as a different platform if its name, namespace or cluster has changed", async () => {
    await accept("c1/other");
    await accept("c2/shop");
    const first = await declare("shop");
    for (const next of [
      await declare("shop", { name: "shop-2" }),
      await declare("other"),
      await declare("shop", { id: newId("c2") }),
    ]) {
      expect(next.status).toBe(200);
      expect(next.body.platform_id).not.toBe(first.body.platform_id);
    }
  });
});
