import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { approve, createAgent, registerPlatform, selfRequest } from "../support/platform_world.ts";

const api = runningApi();

describe("GET /v1/service/agents", () => {
  test("lists and filters the agents of all connections, with platform, key and active delegations", async () => {
    const person = await api.person({ organization_name: "Bank" });
    const path = "/v1/service/platforms";
    const shop = await registerPlatform(person, { name: "Shop" }, path);
    const desk = await registerPlatform(person, { name: "Desk" }, path);
    const clerk = await createAgent(api.client(), shop, { name: "Clerk" });
    api.clock.advance(1);
    const trader = await createAgent(api.client(), desk, { name: "Trader" });
    const request = await selfRequest(person, shop.connectionId, { agent_id: clerk });
    await approve(person, request, ["data:read"], { expires_in: 60 });
    const { client } = await addMember(api, person.accountId, "auditor");
    const headers = { "x-service-account": person.accountId };
    const list = async (query: string) => {
      const { body } = await client.get(`/v1/service/agents?${query}`, { headers });
      return (body.items as { agent_id: string }[]).map(({ agent_id }) => agent_id);
    };
    expect(await list("")).toEqual([trader, clerk]);
    for (const [query, expected] of [
      ["q=CLER", [clerk]],
      ["q=desk", [trader]],
      [`q=${clerk}`, [clerk]],
      ["q=%25", []],
      [`platform_id=${shop.platformId}`, [clerk]],
      [`connection_id=${desk.connectionId}`, [trader]],
      ["state=deleted", []],
    ] as const) {
      expect([query, await list(query)]).toEqual([query, expected]);
    }
    const read = () => client.get(`/v1/service/agents/${clerk}`, { headers });
    expect((await read()).body).toMatchObject({
      name: "Clerk",
      custody_mode: "custodial",
      key_fingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      platform: { platform_id: shop.platformId, name: "Shop" },
      declared_by: null,
      active_delegations: 1,
      disabled_at: null,
    });
    api.clock.advance(61);
    expect((await read()).body.active_delegations).toBe(0);
    await person.client.call("DELETE", `/v1/service/connections/${shop.connectionId}/agents/${clerk}`);
    expect(await list("")).toEqual([trader]);
    expect(await list("state=deleted")).toEqual([clerk]);
    expect((await read()).body.disabled_at).toBe(api.clock.now().toISOString());
    const stranger = await api.person();
    for (const id of [clerk, "nonsense"]) {
      expect((await stranger.client.get(`/v1/service/agents/${id}`)).status).toBe(404);
    }
  });
});
