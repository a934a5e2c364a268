import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { errorCode, platformApi, registerPlatform } from "../support/platform_world.ts";

const api = platformApi();
const ORGANIZATION = "/v1/service/platforms";
const refusalOf = (answer: { status: number; body: Record<string, unknown> }) => [
  answer.status,
  errorCode(answer),
];

describe.each([
  ["a personal account", undefined, "/v1/service/platforms/personal"],
  ["an organization", { organization_name: "Analytical Engines" }, ORGANIZATION],
] as const)("of %s", (_, type, path) => {
  test("publishing a platform is not available, and leaves it a draft", async () => {
    const person = await api.person(type);
    const { platformId } = await registerPlatform(person, {}, path);
    const place = `${ORGANIZATION}/${platformId}`;
    expect(refusalOf(await person.client.post(`${place}/publish`))).toEqual([403, "not_available"]);
    expect((await person.client.get(place)).body.publish_state).toBe("draft");
  });

  test.each(["members", "domains"])("%s are not available, whatever is sent", async (kind) => {
    const { client } = await api.person(type);
    for (const body of [undefined, {}, { email: "b@example.test" }, { domain: "example.test" }]) {
      const answer = await client.post(`/v1/service/organization/${kind}`, body);
      expect(refusalOf(answer)).toEqual([403, "not_available"]);
    }
  });
});

test("another's platform and none are not found rather than not available", async () => {
  const { platformId } = await registerPlatform(await api.person());
  const { client } = await api.person();
  for (const id of [platformId, randomUUID(), "nonsense"]) {
    expect(refusalOf(await client.post(`${ORGANIZATION}/${id}/publish`))).toEqual([404, "not_found"]);
  }
});

test("who is not signed in, repeats no CSRF token or has no complete account is told that first", async () => {
  const path = "/v1/service/organization/members";
  const { client } = await api.person();
  expect(errorCode(await api.client().post(path))).toBe("auth_required");
  expect(errorCode(await client.post(path, undefined, { csrf: false }))).toBe("csrf_failed");
  const beginner = api.client();
  await beginner.signIn(`${randomUUID()}@example.test`);
  expect(errorCode(await beginner.post(path))).toBe("onboarding_incomplete");
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
