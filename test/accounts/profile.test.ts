import { afterAll, beforeAll, expect, test } from "vitest";
import { browserOf } from "../console/support/console.ts";
import { startApi, type TestApi } from "../support/api.ts";

const PROFILE = "/v1/auth/profile";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const change = (client: Awaited<ReturnType<TestApi["person"]>>["client"], body: unknown) =>
  client.call("PATCH", PROFILE, { body: body as Record<string, unknown> });

test("a person changes their own name and nobody else's", async () => {
  const [ada, eve] = [await api.person(), await api.person()];
  const named = await change(ada.client, { first_name: " Ada ", last_name: "King" });
  expect(named).toMatchObject({ status: 200, body: { first_name: "Ada", last_name: "King" } });
  expect((await ada.client.get("/v1/auth/session")).body).toMatchObject({
    first_name: "Ada",
    last_name: "King",
  });
  expect((await eve.client.get("/v1/auth/session")).body.last_name).not.toBe("King");
});

test.each([{ first_name: "Ada" }, { first_name: "Ada", last_name: "Lov\u202elace" }])(
  "refuses the name %j and keeps the former one",
  async (body) => {
    const { client } = await api.person();
    const { body: before } = await client.get("/v1/auth/session");
    expect((await change(client, body)).status).toBe(400);
    expect((await client.get("/v1/auth/session")).body.last_name).toBe(before.last_name);
  },
);

test("rejects a new name before the onboarding is complete", async () => {
  const client = api.client();
  await client.signIn("early@example.test");
  const early = await change(client, { first_name: "Ada", last_name: "King" });
  expect(early).toMatchObject({ status: 403, body: { error: { code: "onboarding_incomplete" } } });
});

test("a person changes their name on a page of the console", async () => {
  const { client } = await api.person();
  const page = await browserOf(api, client).open("/console/account/name");
  const done = await page.send("profile", { first_name: "Grace", last_name: "Hopper" });
  expect(done.path).toBe("/console/account?notice=renamed");
  expect(done.words).toContain("Grace Hopper");
});
