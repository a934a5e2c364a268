import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf, type Shown } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";
import { delegationViewer } from "./delegation_viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const PATH = "/console/delegations/revoke";

/** Creates a viewer with several active delegations to one agent. Returns their ids, oldest first. */
async function several(): Promise<[Seen, string[]]> {
  const seen = await delegationViewer(api);
  const { connection, agent, cert = "" } = seen.ids;
  const certs = [cert];
  for (const scope of ["data:read", "payments:send"]) {
    const wish = { connection_id: connection, agent_id: agent, requested_scope: [scope] };
    const asked = await seen.client.post("/v1/service/delegations/self-request", wish);
    const path = `/v1/service/delegations/requests/${asked.body.request_id}/approve`;
    const { body } = await seen.client.post(path, { approved_scope: [scope] });
    certs.push(String(body.cert_id));
  }
  return [seen, certs];
}

async function statesOf({ client }: Seen, certs: readonly string[]): Promise<unknown[]> {
  const read = await Promise.all(certs.map((cert) => client.get(`/v1/service/delegations/${cert}`)));
  return read.map(({ body }) => body.status);
}

const linksTo = ({ text }: Shown, certs: readonly string[]) =>
  certs.filter((cert) => text.includes(`/console/delegations/${cert}"`));

describe("revoking several delegations", () => {
  test("names each chosen delegation first, then revokes exactly those with one reason", async () => {
    const [seen, certs] = await several();
    const [first = "", second = "", third = ""] = certs;
    const list = await seen.open("/console/delegations");
    expect(list.text).toContain(`href="${PATH}"`);
    const choice = await seen.open(PATH);
    const confirm = await choice.send("choose", { cert_id: [first, third] });
    expect(confirm.words).toContain("Revoke 2 delegations");
    expect(linksTo(confirm, certs)).toEqual([first, third]);
    expect(await statesOf(seen, certs)).toEqual(["approved", "approved", "approved"]);
    const done = await confirm.send("revoke", { reason: "The laptop was stolen" });
    expect([done.path, done.words.includes("Every check of them is denied")]).toEqual([
      "/console/delegations?notice=revoked_many",
      true,
    ]);
    expect(await statesOf(seen, certs)).toEqual(["revoked", "approved", "revoked"]);
    const { body } = await seen.client.get(`/v1/service/delegations/${third}`);
    expect(body.revoke_reason).toBe("The laptop was stolen");
    const { body: kept } = await seen.client.get(`/v1/service/delegations/${second}`);
    expect(kept.revoked_at).toBeNull();
  });

  test("names the delegations that could not be revoked, and ends all others", async () => {
    const [seen, certs] = await several();
    const [first = "", second = "", third = ""] = certs;
    const confirm = await (await seen.open(PATH)).send("choose", { cert_id: certs });
    await api.db.raw(
      `create function refuse_one() returns trigger language plpgsql as
         $$ begin if new.cert_id = '${second}' then raise exception 'refused'; end if; return new; end $$`,
    );
    await api.db.raw(
      "create trigger refuse_one before update on certificates for each row execute function refuse_one()",
    );
    try {
      const partly = await confirm.send("revoke", { cert_id: [...certs, "cert-none"] });
      expect(partly.words).toContain("2 of 3 were revoked");
      expect(linksTo(partly, certs)).toEqual([second]);
      expect(await statesOf(seen, certs)).toEqual(["revoked", "approved", "revoked"]);
      await api.db.raw("drop trigger refuse_one on certificates");
      const again = await partly.send("choose");
      expect(linksTo(again, [first, second, third])).toEqual([second]);
      await again.send("revoke");
      expect(await statesOf(seen, certs)).toEqual(["revoked", "revoked", "revoked"]);
    } finally {
      await api.db.raw("drop function refuse_one() cascade");
    }
  });

  test("ticks all that match the filter, and says so if none is ticked", async () => {
    const [seen, certs] = await several();
    const all = await seen.open(`${PATH}?agent_id=${seen.ids.agent}&all=1`);
    const confirm = await all.send("choose");
    expect(linksTo(confirm, certs)).toEqual(certs);
    expect(confirm.words).toContain("Revoke 3 delegations");
    const none = await (await seen.open(PATH)).send("choose", { cert_id: [] });
    expect(none.words).toContain("Tick at least one delegation");
    expect((await seen.open(`${PATH}?agent_id=${"0".repeat(32)}`)).words).toContain("No active delegation");
  });

  test("neither shows nor revokes delegations of another account", async () => {
    const [seen, certs] = await several();
    const other = await delegationViewer(api, { agent: "Stranger's clerk" });
    const choice = await seen.open(PATH);
    const confirm = await choice.send("choose", { cert_id: [other.ids.cert ?? "", "cert-none", ...certs] });
    expect(confirm.words).toContain("2 delegations that you chose have already ended");
    expect(confirm.words).not.toContain("Stranger's clerk");
    expect((await confirm.send("revoke", { cert_id: [other.ids.cert ?? ""] })).status).toBe(404);
    expect(await statesOf(other, [other.ids.cert ?? ""])).toEqual(["approved"]);
  });

  test("needs the role of an approver", async () => {
    const [seen, certs] = await several();
    const { client } = await addMember(api, seen.ids.account ?? "", "auditor");
    const auditor = browserOf(api, client);
    const path = `/console/for/${seen.ids.account}`;
    expect((await auditor.open(`${path}/delegations`)).text).not.toContain("/delegations/revoke");
    expect((await auditor.open(`${path}/delegations/revoke`)).status).toBe(403);
    expect(await statesOf(seen, certs)).toEqual(["approved", "approved", "approved"]);
  });
});

describe("an ended delegation", () => {
  test("offers to ask for the same again, with its scopes, purpose, end and limits", async () => {
    const seen = await delegationViewer(api, { seconds: 7_200 });
    const { cert, agent } = seen.ids;
    const path = `/console/delegations/${cert}`;
    expect((await seen.open(path)).words).not.toContain("Ask again");
    await seen.client.post(`/v1/service/delegations/${cert}/revoke`, {});
    const ended = await seen.open(path);
    const link = ended.element("link", /href="([^"]+)">Ask again</);
    expect(link).toBe(`/console/agents/${agent}/ask?again=${cert}`);
    const ask = await seen.open(link);
    expect(ask.words).toContain("the amount is at most 100 EUR");
    const asked = await ask.send("ask");
    expect(asked.words).toContain("asks to act for");
    const { body } = await seen.client.get("/v1/service/delegations/requests?status=pending");
    const [request] = body.items as Record<string, unknown>[];
    expect(request).toMatchObject({
      agent_id: agent,
      requested_scope: ["data:read", "custom:orders:refund"],
      requested_expires_in: 7_200,
      constraints: [{ type: "max_amount", max_amount: 100, currency: "EUR" }],
    });
  });

  test("cannot lend its limits to a request for another agent", async () => {
    const seen = await delegationViewer(api);
    const other = await delegationViewer(api);
    const path = `/console/agents/${seen.ids.agent}/ask?again=${other.ids.cert}`;
    expect((await seen.open(path)).status).toBe(404);
  });
});
