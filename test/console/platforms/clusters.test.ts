import { afterAll, beforeAll, expect, test } from "vitest";
import { askForBinding } from "../../../src/clusters/namespace_binding.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { formIn } from "../support/console.ts";
import { platformViewer } from "./platform_viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function scene() {
  const seen = await platformViewer(api);
  const bindings = async (namespace: string) =>
    (
      (await seen.client.get("/v1/service/namespace-bindings")).body.namespace_bindings as Record<
        string,
        unknown
      >[]
    ).find((binding) => binding.namespace === namespace);
  const ask = (uid: string) =>
    askForBinding(api, String(seen.ids.account), { clusterId: "c1", namespace: "team-a", uid });
  return { seen, bindings, ask };
}

test("a namespace that requests to act for the account is accepted with a ceiling, changed, and removed", async () => {
  const { seen, bindings } = await scene();
  const list = await seen.open("/console/clusters");
  expect(list.words).toContain("A namespace asks to act for you");
  expect(list.text).toContain('href="/console/clusters/c1/team-a"');
  const opened = await seen.open("/console/clusters/c1/team-a");
  const unsaid = await opened.send("accept");
  expect(unsaid.text).toContain('id="accept-ceiling-fault">Choose 1 to 64 scopes, or tick');
  expect(await bindings("team-a")).toMatchObject({ status: "asking" });
  const bad = await opened.send("accept", { ceiling: "data:reed" });
  expect(bad.text).toMatch(/id="accept-ceiling-fault">[^<]*data:reed/);
  const accepted = await opened.send("accept", { ceiling: ["data:read", "custom:a:b"], four_eyes: "on" });
  expect(accepted.words).toContain("The namespace acts for you within these bounds.");
  expect(accepted.words).not.toContain("asks to act for you");
  const wide = { status: "accepted", ceiling: ["data:read", "custom:a:b"], four_eyes: true };
  expect(await bindings("team-a")).toMatchObject(wide);
  const again = await seen.open("/console/clusters/c1/team-a");
  expect(formIn(again, "accept").pairs).toEqual(
    expect.arrayContaining([
      ["ceiling", "data:read"],
      ["ceiling", "custom:a:b"],
      ["four_eyes", "on"],
    ]),
  );
  await again.send("accept", { ceiling: "data:read", four_eyes: [], unbounded: "on" });
  expect(await bindings("team-a")).toMatchObject({ ceiling: ["data:read"], four_eyes: false });
  await again.send("accept", { ceiling: "", unbounded: "on" });
  expect(await bindings("team-a")).toMatchObject({ ceiling: null });
  const ended = await (await seen.open("/console/clusters/c1/team-a")).send("end");
  expect(ended.words).toContain("The namespace no longer acts for you.");
  expect(await bindings("team-a")).toBeUndefined();
});

test("a page that shows a former namespace does not accept a new one of the same name", async () => {
  const { seen, bindings, ask } = await scene();
  await ask("first");
  const page = await seen.open("/console/clusters/c1/team-a");
  await page.send("accept", { ceiling: "data:read" });
  const stale = await seen.open("/console/clusters/c1/team-a");
  await ask("second");
  const refused = await stale.send("accept", { ceiling: "data:read" });
  expect(refused.words).toContain("The namespace of this name is not the one that you saw");
  expect(refused.words).toContain("You accepted an earlier namespace of this name");
  expect(await bindings("team-a")).toMatchObject({ status: "asking", namespace_uid: "second" });
  await refused.send("accept", { ceiling: "data:read" });
  expect(await bindings("team-a")).toMatchObject({ status: "accepted", namespace_uid: "second" });
});

test("a namespace can be accepted before it requests to act", async () => {
  const { seen, bindings } = await scene();
  const list = await seen.open("/console/clusters");
  const wrong = await list.send("open", { cluster: "c 1", namespace: "team-b" });
  expect(wrong.text).toContain('id="open-cluster-fault"');
  expect((await list.send("open", { cluster: "c1", namespace: "../x" })).text).toContain(
    'id="open-namespace-fault"',
  );
  const opened = await list.send("open", { cluster: "c2", namespace: "team-b" });
  expect(opened.path).toBe("/console/clusters/c2/team-b");
  expect(opened.words).toContain("has not asked");
  await opened.send("accept", { unbounded: "on" });
  expect(await bindings("team-b")).toMatchObject({ cluster: "c2", status: "accepted", ceiling: null });
});

test("a user of a cluster is linked and unlinked", async () => {
  const { seen } = await scene();
  const users = async () =>
    (
      (await seen.client.get("/v1/service/cluster-approvers")).body.cluster_approvers as {
        username: string;
      }[]
    ).map(({ username }) => username);
  const list = await seen.open("/console/clusters");
  const wrong = await list.send("link", { cluster: "", username: "ann" });
  expect(wrong.text).toContain('id="link-cluster-fault"');
  const linked = await list.send("link", { cluster: "c1", username: "ann" });
  expect(linked.words).toContain("Linked.");
  expect(await users()).toEqual(["ann", "jane@example.com"]);
  const ann = linked.element("option for ann", /<option value="([^"]+)"[^>]*>ann \(c1\)</);
  const unlinked = await linked.send("unlink", { approver_id: ann });
  expect(unlinked.words).toContain("Unlinked.");
  expect(await users()).toEqual(["jane@example.com"]);
});

test("an owner links a user to another member, and the page shows whose decisions count", async () => {
  const { seen } = await scene();
  const { accountId, email } = seen.person;
  const member = await addMember(api, accountId, "auditor");
  const list = await seen.open("/console/clusters");
  expect(formIn(list, "link").pairs).toContainEqual(["member_account_id", ""]);
  const linked = await list.send("link", {
    cluster: "c1",
    username: "ann",
    member_account_id: member.accountId,
  });
  const row = linked.element("row of ann", /(<th[^>]*>ann<.*?<\/tr>)/s);
  expect(row).toContain(member.email);
  expect(row).toContain("may not approve now");
  expect(row).toContain(email);
  const row2 = linked.element("row of jane", /(<th[^>]*>jane@example.com<.*?<\/tr>)/s);
  expect(row2).not.toContain("may not approve now");
  const namespace = await seen.open("/console/clusters/c1/default");
  expect(namespace.words).toContain(`Accepted by ${email}`);
});
