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
