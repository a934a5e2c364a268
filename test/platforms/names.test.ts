import { expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const MIXED = "pay\u0430l";
const GREEK = "Ελληνικό Κατάστημα";

test("no platform, agent or organization gets a name that mixes scripts, and all get names in other scripts", async () => {
  const person = await api.person({ organization_name: GREEK });
  const platform = await registerPlatform(person, { name: GREEK }, "/v1/service/platforms");
  const keyed = { headers: { "x-service-api-key": platform.apiKey }, csrf: false };
  const agents = `/v1/service/connections/${platform.connectionId}/agents`;
  const changes = (name: string) => [
    person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, { body: { name } }),
    person.client.call("PATCH", "/v1/service/organization", { body: { organization_name: name } }),
  ];
  for (const answer of await Promise.all(changes(MIXED))) {
    expect([answer.status, errorCode(answer), answer.text.includes("must not mix scripts")]).toEqual([
      400,
      "invalid_request",
      true,
    ]);
  }
  for (const { status } of await Promise.all(changes("書店 Books"))) expect(status).toBe(200);
  const create = (name: string) => api.client().post(agents, { name, agent_type: "api_agent" }, keyed);
  expect([(await create(GREEK)).status, (await create(MIXED)).status]).toEqual([201, 400]);
});

test("a platform and an agent keep a name that mixes scripts from before the rule", async () => {
  const person = await api.person();
  const [platform, agent] = ["c1.platform-1", "c1.agent-1"];
  const declare = (name: string, default_allowed_scopes: string[]) =>
    api.operator("PUT", `/internal/v1/platforms/${platform}`, {
      ...{ account_email: person.email, name, surface_type: "agentic_api", default_allowed_scopes },
    });
  const declareAgent = (name: string) =>
    api.operator("PUT", `/internal/v1/agents/${agent}`, {
      ...{ platform_external_id: platform, name, agent_type: "robot" },
    });
  const first = await declare("Shop", ["data:read", "data:write"]);
  expect([first.status, (await declareAgent("Bot")).status]).toEqual([200, 200]);
  expect([(await declare(MIXED, ["data:read"])).status, (await declareAgent(MIXED)).status]).toEqual([
    400, 400,
  ]);
  await api.db("platforms").where({ external_id: platform }).update({ name: MIXED });
  await api.db("agents").where({ external_id: agent }).update({ name: MIXED });
  const narrowed = await declare(MIXED, ["data:read"]);
  expect(narrowed).toMatchObject({ status: 200, body: { default_allowed_scopes: ["data:read"] } });
  expect((await declareAgent(MIXED)).status).toBe(200);
  const change = { body: { name: MIXED, description: "As before" } };
  const path = `/v1/service/platforms/${String(first.body.platform_id)}`;
  expect((await person.client.call("PATCH", path, change)).status).toBe(200);
});
