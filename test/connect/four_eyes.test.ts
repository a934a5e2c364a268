import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { createAgent, errorCode } from "../support/platform_world.ts";
import { connect, publisher } from "../support/two_companies.ts";

const api = runningApi();

type Acting = Pick<HttpClient, "get" | "post">;

/** An organization that requires two people, and a product that an owner connected and that asks. */
async function asked() {
  const owner = await api.person({ organization_name: "Mills" });
  const made = await connect(api, await publisher(api), { person: owner });
  await owner.client.call("PATCH", "/v1/service/organization", { body: { four_eyes: true } });
  const approver = actingFor(await addMember(api, owner.accountId, "approver"), owner.accountId);
  const agentId = await createAgent(api.client(), made);
  const file = async () => {
    const path = `/v1/service/connections/${made.connectionId}/delegation-requests`;
    const body = { agent_id: agentId, requested_scope: ["data:read"] };
    const answer = await api.client().post(path, body, { headers: { "x-service-api-key": made.apiKey } });
    return String(answer.body.request_id);
  };
  return { ...made, owner, approver, file, requestId: await file() };
}

const pathOf = (requestId: string) => `/v1/service/delegations/requests/${requestId}`;
const approve = (client: Acting, requestId: string) =>
  client.post(`${pathOf(requestId)}/approve`, { approved_scope: ["data:read"] });

describe("four eyes on the request of a connected product", () => {
  test("refuses the member who connected it, and accepts another approver", async () => {
    const { owner, approver, requestId } = await asked();
    const own = await approve(owner.client, requestId);
    expect([own.status, errorCode(own)]).toEqual([403, "four_eyes_required"]);
    expect((await approver.get(pathOf(requestId))).body).toMatchObject({
      requested_by: null,
      connected_by: owner.email,
      four_eyes: true,
    });
    expect((await approve(approver, requestId)).status).toBe(200);
  });

  test("still refuses the member if somebody connects again after the product asked", async () => {
    const { owner, connectionId, requestId } = await asked();
    const other = await addMember(api, owner.accountId, "owner");
    await api
      .db("connections")
      .where({ connection_id: connectionId })
      .update({ connected_by: other.accountId });
    expect(errorCode(await approve(owner.client, requestId))).toBe("four_eyes_required");
  });

  test("lets the product see no member", async () => {
    const { apiKey, requestId } = await asked();
    const read = await api.client().get(pathOf(requestId), { headers: { "x-service-api-key": apiKey } });
    expect(read.body).toMatchObject({ requested_by: null, connected_by: null });
  });

  test("does not count the request as waiting for the member who connected", async () => {
    const { owner, approver } = await asked();
    const waiting = async (client: Acting) => {
      const { body } = await client.get("/v1/auth/session");
      const accounts = body.accounts as { account_id: string; waiting: number }[];
      return accounts.find(({ account_id }) => account_id === owner.accountId)?.waiting;
    };
    expect([await waiting(owner.client), await waiting(approver)]).toEqual([0, 1]);
  });

  test("shows the member who connected on the console why another person must approve", async () => {
    const { owner, approver, requestId } = await asked();
    const page = (client: Acting) => client.get(`/console/for/${owner.accountId}/requests/${requestId}`);
    expect((await page(owner.client)).text).toContain("you connected this product");
    const other = (await page(approver)).text;
    expect(other).not.toContain("you connected this product");
    expect(other).toContain(owner.email);
  });
});
