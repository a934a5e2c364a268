import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { errorCode, platformApi, registerPlatform } from "../support/platform_world.ts";

const api = platformApi();
const ORGANIZATION = "/v1/service/platforms";

test("who is not signed in, repeats no CSRF token or has no complete account is told that first", async () => {
  const { client } = await api.person();
  expect(errorCode(await api.client().post(ORGANIZATION))).toBe("auth_required");
  expect(errorCode(await client.post(ORGANIZATION, undefined, { csrf: false }))).toBe("csrf_failed");
  const beginner = api.client();
  await beginner.signIn(`${randomUUID()}@example.test`);
  expect(errorCode(await beginner.post(ORGANIZATION))).toBe("onboarding_incomplete");
});

test("an organization registers as many platforms as it likes, each with keys and agents of its own", async () => {
  const person = await api.person({ organization_name: "Analytical Engines" });
  const platforms = await Promise.all(
    Array.from({ length: 5 }, (_, n) => registerPlatform(person, { name: `Shop ${n}` }, ORGANIZATION)),
  );
  const { body } = await person.client.get(ORGANIZATION);
  expect((body.items as { name: string }[]).map(({ name }) => name).sort()).toEqual([
    "Shop 0",
    "Shop 1",
    "Shop 2",
    "Shop 3",
    "Shop 4",
  ]);
  const [one, other] = platforms;
  const headers = { "x-service-api-key": one?.apiKey ?? "" };
  const agents = (connectionId = "") =>
    api.client().get(`/v1/service/connections/${connectionId}/agents`, { headers });
  expect((await agents(one?.connectionId)).status).toBe(200);
  expect(errorCode(await agents(other?.connectionId))).toBe("not_found");
});
