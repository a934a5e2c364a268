import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isPlainText } from "../../src/input/plain_text.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { XSS_CORPUS } from "../support/xss_corpus.ts";
import { delegationViewer } from "./delegations/delegation_viewer.ts";
import { browserOf, markupOf } from "./support/console.ts";
import { copied, pasted } from "./support/shell.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

describe("the agents pages", () => {
  test("list and search agents, and show a shell command that creates an agent", async () => {
    const seen = await delegationViewer(api);
    const { ids } = seen;
    const listed = await seen.open("/console/agents");
    expect(listed.words).toMatch(/Clerk Shop 1 /);
    expect(listed.text).toContain(`href="/console/agents/${ids.agent}"`);
    const line = copied(listed, "new-agent");
    expect(line).toContain(`/v1/service/connections/${ids.connection}/agents `);
    expect(await pasted(api, line, ids.key ?? "")).toMatchObject({ name: "my agent" });
    const shows = async (query: string) =>
      (await seen.open(`/console/agents?${query}`)).text.includes(`/agents/${ids.agent}"`);
    for (const [query, expected] of [
      ["q=cler", true],
      [`connection_id=${ids.connection}`, true],
      ["q=nobody", false],
      ["state=deleted", false],
    ] as const) {
      expect([query, await shows(query)]).toEqual([query, expected]);
    }
    const narrowed = await seen.open(`/console/agents?connection_id=${ids.connection}`);
    expect(narrowed.text).toContain(`name="connection_id" value="${ids.connection}"`);
    const fresh = await browserOf(api, (await api.person()).client).open("/console/agents");
    expect(fresh.words).toContain("There are no agents yet. ");
    expect(fresh.words).toContain("First register a platform.");
  });

  test("create an agent once for each form, of any of the account's platforms", async () => {
    const seen = await delegationViewer(api);
    const agents = () => api.db("agents").where({ connection_id: String(seen.ids.connection) });
    const before = (await agents()).length;
    const page = await seen.open("/console/agents");
    const made = await page.send("create", { name: "Courier", agent_type: "mcp_server" });
    expect(made.words).toContain("The agent is ready.");
    expect(made.words).toContain("Courier");
    await page.send("create", { name: "Courier", agent_type: "mcp_server" });
    expect(
      await api.db("agents").where({ connection_id: String(seen.ids.connection), name: "Courier" }),
    ).toMatchObject([{ agent_type: "mcp_server" }]);
    expect((await agents()).length).toBe(before + 1);
    const wrong = await page.send("create", { name: "", agent_type: "mcp_server" });
    expect([wrong.status, wrong.text.includes('id="create-name-fault"')]).toEqual([400, true]);
    const other = await delegationViewer(api);
    const fresh = await seen.open("/console/agents");
    const foreign = await fresh.send("create", { name: "Spy", connection_id: other.ids.connection ?? "" });
    expect(foreign.status).toBe(404);
    expect(await api.db("agents").where({ name: "Spy" })).toEqual([]);
  });

  test("show an agent's key, custody, platform and delegations", async () => {
    const seen = await delegationViewer(api);
    const { words, text } = await seen.open(`/console/agents/${seen.ids.agent}`);
    const shown = await seen.client.get(`/v1/service/agents/${seen.ids.agent}`);
    expect(words).toContain(String(shown.body.key_fingerprint));
    expect(words).toContain("kept in the key vault here");
    for (const path of [`/platforms/${seen.ids.platform}`, `/delegations/${seen.ids.cert}`]) {
      expect(text).toContain(`href="/console${path}"`);
    }
  });

  test("delete an agent after confirmation, and end its delegations", async () => {
    const seen = await delegationViewer(api);
    const path = `/console/agents/${seen.ids.agent}`;
    const asked = await seen.open(`${path}/delete`);
    expect(asked.words).toContain("Its active delegation is revoked");
    const unsure = await asked.send("delete");
    expect([unsure.status, unsure.text.includes('id="delete-sure-fault"')]).toEqual([400, true]);
    expect((await seen.open(path)).text).toContain("/delete");
    const done = await asked.send("delete", { sure: "on" });
    expect(done.words).toContain("The agent is deleted, and its delegations are revoked.");
    expect(done.words).toContain("revoked");
    expect(done.text).not.toContain("/delete");
    expect((await seen.open(`${path}/delete`)).words).toContain("It is deleted already.");
    const certificate = await seen.client.get(`/v1/service/delegations/${seen.ids.cert}`);
    expect(certificate.body).toMatchObject({ status: "revoked", revoke_reason: "agent deleted" });
    expect((await seen.open("/console/agents?state=deleted")).words).toContain("Clerk");
  });

  test("let an owner confirm which object may adopt an agent, and withdraw the confirmation", async () => {
    const seen = await delegationViewer(api);
    const path = `/console/agents/${seen.ids.agent}/adoption`;
    const asked = await seen.open(path);
    expect(asked.words).toContain(`adopt: ${seen.ids.agent}`);
    const wrong = await asked.send("confirm", { cluster: "prod", namespace: "Team A", name: "clerk" });
    expect(wrong.text).toContain('id="confirm-namespace-fault"');
    const done = await asked.send("confirm", { cluster: "prod", namespace: "team-a", name: "clerk" });
    expect(done.words).toContain("Confirmed. The object may take the agent over, once.");
    expect(await api.db("adoptions").where({ adopted_id: seen.ids.agent ?? "" })).toMatchObject([
      { kind: "agent", cluster_id: "prod", namespace: "team-a", name: "clerk" },
    ]);
    const withdrawn = await done.send("withdraw");
    expect(withdrawn.words).toContain("Withdrawn. No object may take the agent over.");
    expect(await api.db("adoptions").where({ adopted_id: seen.ids.agent ?? "" })).toEqual([]);
  });

  test("say that an agent is declared by an object, and what deleting the agent on the page means", async () => {
    const seen = await delegationViewer(api);
    const { agent = "", platform = "" } = seen.ids;
    await api.db("platforms").where({ platform_id: platform }).update({ object_namespace: "team-a" });
    const object = { external_id: `prod.${crypto.randomUUID()}`, object_name: "clerk" };
    await api.db("agents").where({ agent_id: agent }).update(object);
    const shown = await seen.open(`/console/agents/${agent}`);
    expect(shown.words).toContain("the Agent team-a/clerk in the cluster prod");
    expect(shown.text).not.toContain("/adoption");
    expect((await seen.open(`/console/agents/${agent}/delete`)).words).toContain("makes no other agent");
  });

  test("hide an agent from other accounts", async () => {
    const { ids } = await delegationViewer(api);
    const other = await delegationViewer(api);
    for (const path of ["", "/delete", "/adoption"]) {
      expect([path, (await other.open(`/console/agents/${ids.agent}${path}`)).status]).toEqual([path, 404]);
    }
  });
});

test.each([
  { role: "approver", deletes: false, confirms: false },
  { role: "developer", deletes: true, confirms: false },
  { role: "auditor", deletes: false, confirms: false },
  { role: "owner", deletes: true, confirms: true },
] as const)(
  "the agent pages offer the role $role only permitted actions",
  async ({ role, deletes, confirms }) => {
    const seen = await delegationViewer(api);
    const { client } = await addMember(api, seen.ids.account ?? "", role);
    const path = `/console/for/${seen.ids.account}/agents/${seen.ids.agent}`;
    const browser = browserOf(api, client);
    expect((await browser.open(path)).text.includes(`${path}/delete`)).toBe(deletes);
    expect((await browser.open(`${path}/delete`)).text.includes('value="delete"')).toBe(deletes);
    expect((await browser.open(`${path}/adoption`)).text.includes('value="confirm"')).toBe(confirms);
  },
);

test("names from untrusted parties are escaped on every page", async () => {
  const seen = await delegationViewer(api);
  const path = `/console/agents/${seen.ids.agent}`;
  const shownAs = async (name: string) => {
    await api
      .db("agents")
      .where({ agent_id: String(seen.ids.agent) })
      .update({ name });
    await api
      .db("platforms")
      .where({ platform_id: String(seen.ids.platform) })
      .update({ name });
    const pages = await Promise.all(
      ["/console/agents", path, `${path}/delete`, `${path}/adoption`].map((each) => seen.open(each)),
    );
    return pages.map(({ text }) => markupOf(text));
  };
  const plain = await shownAs("Clerk");
  for (const text of XSS_CORPUS.filter(isPlainText)) {
    expect([text, await shownAs(text.slice(0, 60).trim())]).toEqual([text, plain]);
  }
});
