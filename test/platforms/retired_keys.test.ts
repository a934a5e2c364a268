import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.db.raw("drop trigger api_keys_changed on api_keys");
  await api.db.raw("drop trigger connections_changed on connections");
});
afterAll(() => api.stop());

function listAgents({ connectionId, apiKey }: TestPlatform) {
  return api.client().get(`/v1/service/connections/${connectionId}/agents`, {
    headers: { "x-service-api-key": apiKey },
  });
}

async function lookupsOf(platform: TestPlatform): Promise<number> {
  let lookups = 0;
  const note = ({ sql }: { sql: string }) => {
    if (sql.includes('from "api_keys" as "k"')) lookups += 1;
  };
  api.db.on("query", note);
  expect((await listAgents(platform)).status).toBe(200);
  api.db.removeListener("query", note);
  return lookups;
}

async function remember(platform: TestPlatform): Promise<void> {
  await expect.poll(() => lookupsOf(platform), { timeout: 20_000, interval: 20 }).toBe(0);
}

const path = ({ connectionId }: TestPlatform) => `/v1/service/connections/${connectionId}`;

test.each<[string, (person: Person, platform: TestPlatform) => Promise<{ status: number }>]>([
  ["rotated without grace", ({ client }, platform) => client.post(`${path(platform)}/rotate-key`)],
  ["removed with its connection", ({ client }, platform) => client.call("DELETE", path(platform))],
])(
  "the API process that ends a key refuses the key before the change notification arrives: %s",
  async (_, end) => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    await remember(platform);
    expect((await end(person, platform)).status).toBe(200);
    expect(errorCode(await listAgents(platform))).toBe("invalid_api_key");
  },
);

test("the API process that ends former keys refuses those keys before the change notification arrives", async () => {
  const person = await api.person();
  const platform = await registerPlatform(person);
  await person.client.post(`${path(platform)}/rotate-key`, { grace_seconds: 3_600 });
  await remember(platform);
  expect((await person.client.post(`${path(platform)}/end-former-keys`)).status).toBe(200);
  expect(errorCode(await listAgents(platform))).toBe("invalid_api_key");
});

test("the API process that changes settings of a connection uses the new values before the change notification arrives", async () => {
  const person = await api.person();
  const platform = await registerPlatform(person);
  await remember(platform);
  const body = { registry_answers: true };
  expect((await person.client.call("PATCH", path(platform), { body })).status).toBe(200);
  expect(await lookupsOf(platform)).toBe(1);
});

test("the API process that rotates a key for the operator refuses the former key immediately", async () => {
  const { email } = await api.person();
  const object = "/internal/v1/platforms/c1.retired";
  const { body } = await api.operator("PUT", object, {
    account_email: email,
    name: "Shop",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read"],
  });
  const { api_key: apiKey } = body.credentials as { api_key: string };
  const platform = { connectionId: String(body.connection_id), apiKey } as TestPlatform;
  await remember(platform);
  expect((await api.operator("POST", `${object}/credentials/rotate`)).status).toBe(200);
  expect(errorCode(await listAgents(platform))).toBe("invalid_api_key");
});
