import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { connect, lend, publisher } from "../support/two_companies.ts";

const api = runningApi();

describe("an evil publisher", () => {
  test("learns no address of a customer's members with the connection's key", async () => {
    const customer = await connect(api, await publisher(api));
    const { certId } = await lend(api, customer);
    const revoke = `/v1/service/delegations/${certId}/revoke`;
    expect((await customer.person.client.post(revoke, {})).status).toBe(200);
    const requested = { connection_id: customer.connectionId };
    await customer.person.client.post("/v1/service/delegations/self-request", requested);
    const headers = { "x-service-api-key": customer.apiKey };
    const { email } = customer.person;
    for (const path of ["delegations", `delegations/${certId}`, "delegations/requests"]) {
      const seen = await api.client().get(`/v1/service/${path}`, { headers });
      expect([path, seen.status, seen.text.includes(email)]).toEqual([path, 200, false]);
      const own = await customer.person.client.get(`/v1/service/${path}`);
      expect([path, own.text.includes(email)]).toEqual([path, true]);
    }
  });
});
