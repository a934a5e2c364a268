import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { type Person, runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";

const PATH = "/v1/service/cluster-approvers";
const api = runningApi();

describe("a cluster approver", () => {
  let person: Person;
  beforeEach(async () => {
    person = await api.person();
  });
  const link = (username: string, cluster = "c1", who = person) =>
    who.client.post(PATH, { cluster, username });
  const linked = async (who = person) =>
    ((await who.client.get(PATH)).body.cluster_approvers as { username: string }[]).map(
      ({ username }) => username,
    );

  test("can be linked only once, and unlinked by the account's owner", async () => {
    const first = await link("ann@example.test");
    expect(first).toMatchObject({ status: 201, body: { cluster: "c1", username: "ann@example.test" } });
    expect((await link("ann@example.test")).body).toEqual(first.body);
    await link("oidc:https://issuer.example.test#7", "prod-eu");
    expect(await linked()).toEqual(["ann@example.test", "oidc:https://issuer.example.test#7"]);
    const path = `${PATH}/${String(first.body.approver_id)}`;
    const gone = { approver_id: first.body.approver_id, linked: false };
    expect((await person.client.call("DELETE", path)).body).toEqual(gone);
    expect(errorCode(await person.client.call("DELETE", path))).toBe("not_found");
    expect(await linked()).toEqual(["oidc:https://issuer.example.test#7"]);
  });

  test("remains invisible to other accounts, which cannot unlink the approver either", async () => {
    const stranger = await api.person();
    const { body } = await link("ann@example.test");
    expect(await linked(stranger)).toEqual([]);
    const path = `${PATH}/${String(body.approver_id)}`;
    expect(errorCode(await stranger.client.call("DELETE", path))).toBe("not_found");
    expect(await linked()).toEqual(["ann@example.test"]);
  });

  test("counts toward a limit of 1,000 per account; at the limit, it can be unlinked or linked again", async () => {
    await api.db("cluster_approvers").insert(
      Array.from({ length: 999 }, (_, n) => ({
        approver_id: randomUUID(),
        account_id: person.accountId,
        cluster_id: "c1",
        username: `user-${n}`,
        linked_at: new Date(),
      })),
    );
    const last = await link("last");
    expect(last.status).toBe(201);
    expect(errorCode(await link("beyond"))).toBe("approver_limit");
    expect(await linked()).not.toContain("beyond");
    expect((await link("last")).body).toEqual(last.body);
    expect((await link("ann", "c1", await api.person())).status).toBe(201);
    await person.client.call("DELETE", `${PATH}/${String(last.body.approver_id)}`);
    expect((await link("beyond")).status).toBe(201);
  });

  test.each([
    "system:serviceaccount:shop:default",
    "system:node:one",
    "system:anonymous",
    "",
    "ann\nbob",
    "ann\u202ebob",
    "x".repeat(254),
  ])("must be a person with a readable name, so the API rejects %j", async (username) => {
    expect(errorCode(await link(username))).toBe("invalid_request");
    expect(await linked()).toEqual([]);
  });

  test("may be the administrator of a small cluster", async () => {
    expect((await link("system:admin")).status).toBe(201);
  });
});
