import { expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { createAgent, delegated, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();

const get = (apiKey: string, path: string) =>
  api.client().get(path, { headers: { "x-service-api-key": apiKey } });

/** The first platform has a delegation. */
async function twoPlatforms() {
  const person = await api.person({ organization_name: "Ada & Co" });
  const register = () => registerPlatform(person, {}, "/v1/service/platforms");
  const [shop, bank] = [await register(), await register()];
  return { person, shop: await delegated(api, ["data:read"], { person, platform: shop }), bank };
}

test("an application reads its connection's requests and certificates", async () => {
  const { platform, certId, requestId } = await delegated(api);
  const certificates = await get(platform.apiKey, "/v1/service/delegations");
  expect(certificates.body.items).toMatchObject([{ cert_id: certId }]);
  const requests = await get(platform.apiKey, "/v1/service/delegations/requests");
  expect(requests.body.items).toMatchObject([{ request_id: requestId }]);
  expect((await get(platform.apiKey, `/v1/service/delegations/${certId}`)).status).toBe(200);
  expect((await get(platform.apiKey, `/v1/service/delegations/requests/${requestId}`)).status).toBe(200);
});

test("an application sees nothing of a different connection, even if both connections belong to the same account", async () => {
  const { shop, bank } = await twoPlatforms();
  for (const list of ["/v1/service/delegations", "/v1/service/delegations/requests"]) {
    expect((await get(bank.apiKey, list)).body.items).toEqual([]);
    const asked = await get(bank.apiKey, `${list}?connection_id=${shop.platform.connectionId}`);
    expect(asked.body.items).toEqual([]);
  }
  const one = await get(bank.apiKey, `/v1/service/delegations/${shop.certId}`);
  expect([one.status, errorCode(one)]).toEqual([404, "not_found"]);
  const request = await get(bank.apiKey, `/v1/service/delegations/requests/${shop.requestId}`);
  expect([request.status, errorCode(request)]).toEqual([404, "not_found"]);
});

test("an application cannot decide or revoke", async () => {
  const { platform, certId, requestId } = await delegated(api);
  const post = (path: string) =>
    api.client().post(path, { reason: "x" }, { headers: { "x-service-api-key": platform.apiKey } });
  for (const path of [
    `/v1/service/delegations/${certId}/revoke`,
    `/v1/service/delegations/requests/${requestId}/deny`,
  ]) {
    expect(errorCode(await post(path))).toBe("auth_required");
  }
});

test("a person can manage only the agents of their own connections", async () => {
  const { person, shop, bank } = await twoPlatforms();
  const path = `/v1/service/connections/${bank.connectionId}/agents`;
  const agentId = await createAgent(api.client(), bank);
  expect((await person.client.get(path)).body.items).toMatchObject([{ agent_id: agentId }]);
  expect((await person.client.get(`${path}/${agentId}`)).body.name).toBe("shop-bot");
  // This path does not find an agent of the account's other connection.
  expect((await person.client.get(`${path}/${shop.agentId}`)).status).toBe(404);
  const stranger = await api.person();
  expect(errorCode(await stranger.client.get(path))).toBe("not_found");
  expect(errorCode(await stranger.client.call("DELETE", `${path}/${agentId}`))).toBe("not_found");
  const deleted = await person.client.call("DELETE", `${path}/${agentId}`);
  expect(deleted.body).toMatchObject({ agent_id: agentId, disabled_at: expect.any(String) });
});

test("a change to an agent requires the CSRF header from a person, but not from an application", async () => {
  const { person, platform, agentId } = await delegated(api);
  const path = `/v1/service/connections/${platform.connectionId}/agents/${agentId}`;
  expect(errorCode(await person.client.call("DELETE", path, { csrf: false }))).toBe("csrf_failed");
  const headers = { "x-service-api-key": platform.apiKey };
  expect((await api.client().call("DELETE", path, { headers, csrf: false })).status).toBe(200);
});
