import { request } from "node:http";
import { expect, test } from "vitest";
import { wholeApi } from "../http/walk/world.ts";
import type { Person } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { registerPlatform } from "../support/platform_world.ts";

const api = wholeApi();
const MEMBERS = "/v1/service/organization/members";

type Sent = { method: string; path: string; body: object };

/** Sends a call without the last byte of its body, which the returned `finish` sends. */
async function heldBack({ client }: Person, organizationId: string, { method, path, body }: Sent) {
  const cookie = ["session", "csrf"].map((name) => `service_${name}=${client.cookie(`service_${name}`)}`);
  const text = JSON.stringify(body);
  const headers = {
    "content-type": "application/json",
    "content-length": text.length,
    cookie: cookie.join("; "),
    "x-service-csrf": client.cookie("service_csrf") ?? "",
    "x-service-account": organizationId,
  };
  const call = request(`${api.url}${path}`, { method, headers });
  const status = new Promise<number | undefined>((resolve, reject) => {
    call.once("response", (answer) => resolve(answer.resume().statusCode)).once("error", reject);
  });
  call.write(text.slice(0, -1));
  await new Promise((resolve) => setTimeout(resolve, 300));
  return (): Promise<number | undefined> => {
    call.end(text.slice(-1));
    return status;
  };
}

async function organization() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  return { owner, id: owner.accountId };
}

test("a call with a delayed body has no effect after its caller was removed", async () => {
  const { owner, id } = await organization();
  const [second, other] = [await addMember(api, id, "owner"), await addMember(api, id, "auditor")];
  const path = `${MEMBERS}/${other.accountId}`;
  const finish = await heldBack(second, id, { method: "PATCH", path, body: { role: "owner" } });
  expect((await actingFor(owner, id).delete(`${MEMBERS}/${second.accountId}`)).status).toBe(200);
  expect(await finish()).toBe(404);
  const { body } = await actingFor(owner, id).get(MEMBERS);
  expect((body.members as { role: string }[]).map(({ role }) => role)).toEqual(["owner", "auditor"]);
});

test("a call with a delayed body has no effect after its caller's role no longer allows it", async () => {
  const { owner, id } = await organization();
  const developer = await addMember(api, id, "developer");
  const { connectionId } = await registerPlatform(owner, { name: "Shop" }, "/v1/service/platforms");
  const path = `/v1/service/connections/${connectionId}/rotate-key`;
  const finish = await heldBack(developer, id, { method: "POST", path, body: { grace_seconds: 0 } });
  await actingFor(owner, id).patch(`${MEMBERS}/${developer.accountId}`, { role: "auditor" });
  expect(await finish()).toBe(403);
});

test("a call with a delayed body has no effect after its caller signed out everywhere", async () => {
  const { owner, id } = await organization();
  const path = "/v1/service/organization";
  const finish = await heldBack(owner, id, { method: "PATCH", path, body: { organization_name: "Other" } });
  await owner.client.post("/v1/auth/logout", { everywhere: true });
  expect(await finish()).toBe(401);
});

test("exactly one of two owners who demote each other at the same time remains an owner", async () => {
  for (let round = 0; round < 5; round += 1) {
    const { owner, id } = await organization();
    const other = await addMember(api, id, "owner");
    await addMember(api, id, "owner");
    const demote = (by: Person, whom: Person) =>
      actingFor(by, id).patch(`${MEMBERS}/${whom.accountId}`, { role: "auditor" });
    const answers = await Promise.all([demote(owner, other), demote(other, owner)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403]);
  }
});
