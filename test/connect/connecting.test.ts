import { expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { connectScene } from "./scene.ts";

const api = runningApi();
const { product, begun, exchange } = connectScene(api);
const ORGANIZATION = "/v1/service/organization";

async function scene() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  const acting = actingFor(await addMember(api, owner.accountId, "approver"), owner.accountId);
  const rule = (connecting: string) => owner.client.call("PATCH", ORGANIZATION, { body: { connecting } });
  const shop = await product();
  /** Approves a new request. Returns the answer with what the product knows. */
  async function connect({ get, post }: Pick<typeof acting, "get" | "post"> = acting) {
    const { verifier, requestId } = await begun(shop);
    const path = `/v1/service/connect-requests/${requestId}`;
    const { consent_hash } = (await get(path)).body;
    const answer = await post(`${path}/approve`, { scopes: ["data:read"], consent_hash });
    const back = URL.parse(String(answer.body.redirect_to));
    return { answer, verifier, code: back?.searchParams.get("code") ?? "" };
  }
  return { owner, acting, rule, shop, connect };
}

test("approvers connect products by default, and no longer when an owner leaves it to owners", async () => {
  const { owner, acting, rule, shop, connect } = await scene();
  expect((await acting.get(ORGANIZATION)).body.connecting).toBe("owners_and_approvers");
  expect((await exchange(shop, await connect())).status).toBe(200);
  expect((await rule("owners")).body).toMatchObject({ connecting: "owners", four_eyes: false });
  expect(errorCode((await connect()).answer)).toBe("forbidden");
  const { account_id } = (await acting.get(ORGANIZATION)).body;
  expect((await exchange(shop, await connect(actingFor(owner, String(account_id))))).status).toBe(200);
  await rule("owners_and_approvers");
  expect((await exchange(shop, await connect())).status).toBe(200);
});

test("a code of an approver ends when an owner leaves connecting to owners", async () => {
  const { rule, shop, connect } = await scene();
  const decided = await connect();
  await rule("owners");
  const refused = await exchange(shop, decided);
  expect([refused.status, refused.body]).toEqual([
    400,
    { error: "invalid_grant", error_description: expect.stringMatching(/^forbidden: /) },
  ]);
});

test("only owners change who connects, and the activity list shows who did", async () => {
  const { owner, acting, rule } = await scene();
  expect(errorCode(await acting.patch(ORGANIZATION, { connecting: "owners" }))).toBe("forbidden");
  expect(errorCode(await rule("everybody"))).toBe("invalid_request");
  await rule("owners");
  const { body } = await owner.client.get(`${ORGANIZATION}/activity`);
  expect(body.items).toMatchObject([
    { operation: "change_organization", target: { connecting: "owners" }, actor: { email: owner.email } },
  ]);
});

test("a personal account has no such rule", async () => {
  const person = await api.person();
  const refused = await person.client.call("PATCH", ORGANIZATION, { body: { connecting: "owners" } });
  expect(errorCode(refused)).toBe("not_available");
});
