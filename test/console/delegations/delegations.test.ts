import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isPlainText } from "../../../src/input/plain_text.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, markupOf } from "../support/console.ts";
import { delegationViewer } from "./delegation_viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const forAccount = ({ ids }: { ids: Record<string, string> }, path: string) =>
  `/console/for/${ids.account}${path}`;

describe("the list of delegations", () => {
  test("has a search and a filter by state, and explains an empty result", async () => {
    const seen = await delegationViewer(api, { seconds: 3_600 });
    const first = await seen.open("/console/delegations");
    expect(first.words).toContain("Clerk of Shop");
    expect(first.words).toContain("ends soon");
    const shows = async (query: string) =>
      (await seen.open(`/console/delegations?${query}`)).text.includes(`/delegations/${seen.ids.cert}"`);
    for (const query of ["q=clerk", "state=active", "state=ending", "sort=ending", "q=&state=&sort=newest"]) {
      expect([query, await shows(query)]).toEqual([query, true]);
    }
    for (const query of ["q=nobody", "state=revoked", "state=expired", `agent_id=${"0".repeat(32)}`]) {
      expect([query, await shows(query)]).toEqual([query, false]);
    }
    expect((await seen.open("/console/delegations?q=nobody")).words).toContain(
      "No delegation matches the filter",
    );
    const filtered = await seen.open(`/console/delegations?agent_id=${seen.ids.agent}`);
    expect(filtered.text).toContain(`name="agent_id" value="${seen.ids.agent}"`);
    const fresh = browserOf(api, (await api.person()).client);
    expect((await fresh.open("/console/delegations")).words).toContain("There are no delegations yet");
    expect((await fresh.open("/console/delegations?state=whatever")).status).toBe(400);
  });

  test('begins with the delegation that expires next if the list is filtered by "ends soon"', async () => {
    const seen = await delegationViewer(api, { seconds: 3_600 });
    api.clock.advance(10);
    const { connection, agent } = seen.ids;
    const wish = { connection_id: connection, agent_id: agent, requested_scope: ["data:read"] };
    const { body } = await seen.client.post("/v1/service/delegations/self-request", wish);
    const path = `/v1/service/delegations/requests/${body.request_id}/approve`;
    const later = await seen.client.post(path, { approved_scope: ["data:read"], expires_in: 7_200 });
    const orderOf = async (query: string) => {
      const { text } = await seen.open(`/console/delegations?${query}`);
      return [...text.matchAll(/\/delegations\/(cert-[0-9a-f-]+)"/g)].map(([, id]) => id);
    };
    expect(await orderOf("state=active")).toEqual([later.body.cert_id, seen.ids.cert]);
    expect(await orderOf("state=ending")).toEqual([seen.ids.cert, later.body.cert_id]);
  });

  test("shows a delegation as expired when its last second is over", async () => {
    const seen = await delegationViewer(api, { seconds: 100 });
    api.clock.advance(100);
    expect((await seen.open(`/console/delegations/${seen.ids.cert}`)).words).toContain(
      "It is active and ends",
    );
    api.clock.advance(1);
    expect((await seen.open(`/console/delegations/${seen.ids.cert}`)).words).toContain("It has expired");
  });
});

describe("the page about a delegation", () => {
  test("shows the delegation's content in sentences, its state, its chain and its latest decisions", async () => {
    const seen = await delegationViewer(api);
    const { words, text } = await seen.open(`/console/delegations/${seen.ids.cert}`);
    for (const said of [
      "Delegation to Clerk",
      "It is active",
      "orders:refund, as Shop defines it",
      "the amount is at most 100 EUR",
      "Until somebody revokes it.",
      "the root key of this account",
      "its hybrid signature is valid",
      "the key of this agent",
      "does not name it",
      "A limit of the delegation was not met",
      "Ed25519 and ML-DSA-65 together",
    ]) {
      expect(words).toContain(said);
    }
    expect(words.match(/sha256:[0-9a-f]{64}/g)).toHaveLength(2);
    expect(text).toContain(`href="/console/history?cert_id=${seen.ids.cert}"`);
    expect(text).toContain(`href="/console/agents/${seen.ids.agent}"`);
    expect(text.match(/<tr role="row"><th scope="row"/g)).toHaveLength(10);
  });

  test("offers the signed file for download", async () => {
    const seen = await delegationViewer(api);
    const file = await seen.open(`/console/delegations/${seen.ids.cert}/certificate.json`);
    expect(file.headers.get("content-disposition")).toBe(`attachment; filename="${seen.ids.cert}.json"`);
    const shown = await seen.client.get(`/v1/service/delegations/${seen.ids.cert}`);
    expect(JSON.parse(file.text)).toEqual(shown.body.cert_json);
  });

  test("says that the delegation's signature is invalid", async () => {
    const seen = await delegationViewer(api);
    const own = { cert_id: seen.ids.cert ?? "" };
    const row = await api.db("certificates").where(own).first("cert_json");
    const cert_json = (row?.cert_json ?? "").replace('"data:read"', '"data:share"');
    await api.db("certificates").where(own).update({ cert_json });
    const { words } = await seen.open(`/console/delegations/${seen.ids.cert}`);
    expect(words).toContain("its signature is not valid (ed25519)");
    expect(words).not.toContain("its hybrid signature is valid");
  });

  test("says which key of the delegation is no longer the registered key", async () => {
    const seen = await delegationViewer(api);
    const path = `/console/delegations/${seen.ids.cert}`;
    const other = await delegationViewer(api);
    const account = await api
      .db("accounts")
      .where({ account_id: other.ids.account ?? "" })
      .first("root_public_key");
    await api
      .db("accounts")
      .where({ account_id: seen.ids.account ?? "" })
      .update({ root_public_key: account?.root_public_key ?? null });
    const root = (await seen.open(path)).words;
    expect([
      root.includes("not the root key of this account"),
      root.includes("not the key of this agent"),
    ]).toEqual([true, false]);
    const agent = await api
      .db("agents")
      .where({ agent_id: other.ids.agent ?? "" })
      .first("public_key");
    await api
      .db("agents")
      .where({ agent_id: seen.ids.agent ?? "" })
      .update({ public_key: agent?.public_key ?? { ed25519: "", ml_dsa_65: "" } });
    expect((await seen.open(path)).words).toContain("not the key of this agent");
  });

  test("does not exist for other accounts", async () => {
    const { ids } = await delegationViewer(api);
    const other = await delegationViewer(api);
    for (const path of ["", "/revoke", "/certificate.json"]) {
      const shown = await other.open(`/console/delegations/${ids.cert}${path}`);
      expect([path, shown.status]).toEqual([path, 404]);
    }
  });
});

describe("the page that revokes a delegation", () => {
  test("shows what the revocation stops, and keeps the first reason if the form is sent again", async () => {
    const seen = await delegationViewer(api);
    const path = `/console/delegations/${seen.ids.cert}`;
    const [asked, other] = [await seen.open(`${path}/revoke`), await seen.open(`${path}/revoke`)];
    expect(asked.words).toContain("It was used 9 times in the last 7 days.");
    expect(asked.words).toContain("3 minutes ago");
    expect(asked.words).toContain("It was denied 3 times in that time.");
    expect(asked.words).toMatch(/custom:orders:refund 6 data:read 3/);
    expect(asked.words).toContain("Clerk has no other active delegation");
    const done = await asked.send("revoke", { reason: "  stolen laptop " });
    expect(done.words).toContain("Revoked. Every check of it is denied from now on.");
    expect(done.words).toContain("It is revoked permanently: every use of it is denied.");
    expect(done.words).toContain("Reason stolen laptop");
    expect(done.words).toContain("names it, so that others see the revocation too");
    expect(done.text).not.toContain("/revoke");
    for (const again of [
      await asked.send("revoke", { reason: "  stolen laptop " }),
      await other.send("revoke", { reason: "another one" }),
    ]) {
      expect(again.words).toContain("Reason stolen laptop");
    }
    expect((await seen.open(`${path}/revoke`)).words).toContain("It is revoked already.");
  });

  test("causes the immediate denial of proofs that were made before the revocation", async () => {
    const seen = await delegationViewer(api);
    const { agent, connection, cert, key } = seen.ids;
    const call = async (path: string, body?: unknown) => {
      const headers = { "x-service-api-key": key ?? "" };
      return (await api.client().post(`/v1/service/${path}`, body, { headers })).body;
    };
    const verify = async () => {
      const { challenge } = await call("challenge");
      const asked = { challenge, required_scope: "data:read" };
      const { proof_bundle } = await call(`connections/${connection}/agents/${agent}/present`, asked);
      const context = { amount: 1, currency: "EUR" };
      return () => call("verify", { proof_bundle, required_scope: "data:read", context });
    };
    expect(await (await verify())()).toMatchObject({ decision: "allow" });
    const proved = await verify();
    await (await seen.open(`/console/delegations/${cert}/revoke`)).send("revoke");
    expect(await proved()).toMatchObject({ decision: "deny", decision_reason: "delegation_revoked" });
    const { words } = await seen.open(`/console/delegations/${cert}`);
    expect(words).toContain("The delegation was revoked");
  });

  test("explains what happens to the cluster object that declares the delegation", async () => {
    const seen = await delegationViewer(api);
    await api
      .db("platforms")
      .where({ platform_id: seen.ids.platform ?? "" })
      .update({ object_namespace: "team-a" });
    const { request_id } = (await seen.client.get(`/v1/service/delegations/${seen.ids.cert}`)).body;
    const object = { external_id: `prod.${crypto.randomUUID()}`, object_name: "refunds" };
    await api
      .db("delegation_requests")
      .where({ request_id: String(request_id) })
      .update(object);
    const { words } = await seen.open(`/console/delegations/${seen.ids.cert}/revoke`);
    expect(words).toContain("The Delegation team-a/refunds in the cluster prod declares it.");
    expect(words).toContain("does not ask again automatically");
  });

  test.each(["owner", "approver"] as const)("can be used by the role %s", async (role) => {
    const seen = await delegationViewer(api);
    const { client } = await addMember(api, seen.ids.account ?? "", role);
    const browser = browserOf(api, client);
    const page = await browser.open(forAccount(seen, `/delegations/${seen.ids.cert}`));
    expect(page.text).toContain(`href="${forAccount(seen, `/delegations/${seen.ids.cert}/revoke`)}"`);
    const done = await (await browser.open(forAccount(seen, `/delegations/${seen.ids.cert}/revoke`))).send(
      "revoke",
    );
    expect(done.words).toContain("It is revoked");
  });

  test.each(["developer", "auditor"] as const)(
    "cannot be used by the role %s, which may only read",
    async (role) => {
      const seen = await delegationViewer(api);
      const { client } = await addMember(api, seen.ids.account ?? "", role);
      const browser = browserOf(api, client);
      const path = forAccount(seen, `/delegations/${seen.ids.cert}`);
      const page = await browser.open(path);
      expect(page.words).toContain("Owners and approvers revoke them");
      expect(page.text).not.toContain("/revoke");
      expect((await browser.open(`${path}/revoke`)).status).toBe(403);
      const csrf = client.cookie("service_csrf") ?? "";
      const sent = await client.call("POST", `${path}/revoke`, {
        headers: { origin: "http://127.0.0.1", "content-type": "application/x-www-form-urlencoded" },
        csrf: false,
        body: new URLSearchParams({ form: "revoke", csrf, key: crypto.randomUUID() }).toString(),
      });
      expect(sent.status).toBe(403);
      const shown = await seen.client.get(`/v1/service/delegations/${seen.ids.cert}`);
      expect(shown.body.status).toBe("approved");
    },
  );
});

describe("text from untrusted parties", () => {
  const paths = ["", "/revoke"];
  const shownAs = async (told: Parameters<typeof delegationViewer>[1]) => {
    const seen = await delegationViewer(api, told);
    const pages = await Promise.all([
      seen.open("/console/delegations"),
      ...paths.map((path) => seen.open(`/console/delegations/${seen.ids.cert}${path}`)),
    ]);
    return { markup: pages.map(({ text }) => markupOf(text)), words: pages[1]?.words ?? "" };
  };

  test("appears escaped on every page: names and reasons", async () => {
    const plain = await shownAs({ isRevoked: true });
    for (const text of XSS_CORPUS.filter(isPlainText)) {
      const name = text.slice(0, 60).trim();
      const hostile = await shownAs({ isRevoked: true, agent: name, platform: name, reason: text });
      expect([text, hostile.markup]).toEqual([text, plain.markup]);
      expect(hostile.words).toContain(text.split(/\s/)[0] ?? "");
    }
  });
});
