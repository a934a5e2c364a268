import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTxtLookup } from "../../../src/organizations/verify_domain.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { type DnsServer, startDnsServer } from "../../support/surroundings/dns_server.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, markupOf, type Shown } from "../support/console.ts";
import { organizationOf } from "./organization.ts";

let dns: DnsServer;
let api: TestApi;
beforeAll(async () => {
  dns = await startDnsServer();
  api = await startApi({ lookupTxt: (name, value) => createTxtLookup([dns.address], 400)(name, value) });
});
afterAll(async () => {
  await api.stop();
  await dns.stop();
});

const organization = async () => {
  const person = await api.person({ organization_name: "Engines" });
  return { ...browserOf(api, person.client), person };
};
const textOf = (shown: Shown, id: string) =>
  shown.element(`text with the id ${id}`, new RegExp(`id="${id}">([^<]*)<`));

describe("a domain", () => {
  test("can be verified on its page with the record that the page shows", async () => {
    const { open, person } = await organization();
    const domain = `${randomUUID()}.example.com`;
    const empty = await open("/console/organization/domains");
    expect(empty.words).toContain("The organization has no domain yet.");
    const wrong = await empty.send("add", { domain: "co.uk" });
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining('id="add-domain-fault"')]);
    const added = await empty.send("add", { domain: ` ${domain.toUpperCase()} ` });
    expect(added.path).toBe(`/console/organization/domains/${domain}?notice=domain_added`);
    expect(added.words).toContain("Waits for its record");
    expect(added.words).toContain("Last check never");
    const [name, value] = [textOf(added, "record-name"), textOf(added, "record-value")];
    expect(name).toBe(`_service-challenge.${domain}`);
    const early = await added.send("check");
    expect([early.status, early.words]).toEqual([
      409,
      expect.stringContaining("DNS does not have this record yet"),
    ]);
    expect(early.words).not.toContain("Last check never");
    expect(early.words).not.toContain("Publish the record now");
    dns.records.set(name, [[value]]);
    dns.fault = 2;
    const away = await added.send("check");
    expect([away.status, away.words]).toEqual([503, expect.stringContaining("DNS did not answer")]);
    dns.fault = undefined;
    const verified = await added.send("check");
    expect(verified.words).toContain("The domain is verified.");
    expect(verified.words).toContain("✓ Verified");
    expect((await person.client.get("/v1/service/organization/domains")).body.domains).toMatchObject([
      { domain, verified_at: expect.any(String) },
    ]);
  });

  test("appears with the time since which its record has been missing, and the platforms that will be suspended", async () => {
    const { open, person } = await organization();
    const domain = `${randomUUID()}.example.com`;
    const added = await (await open("/console/organization/domains")).send("add", { domain });
    dns.records.set(textOf(added, "record-name"), [[textOf(added, "record-value")]]);
    await added.send("check");
    const body = { name: "Shop & Co", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
    const platform = await person.client.post("/v1/service/platforms", body);
    await person.client.post("/v1/service/platforms", { ...body, name: "Draft" });
    const id = String(platform.body.platform_id);
    await person.client.post(`/v1/service/platforms/${id}/publish`, { domain });
    await api.db("organization_domains").where({ domain }).update({ failing_since: api.clock.now() });
    const path = `/console/organization/domains/${domain}`;
    const failing = await open(path);
    expect(failing.words).toContain("After 7 days of this the domain is no longer verified");
    expect(failing.text).toContain(`href="/console/platforms/${id}"><bdi>Shop &#38; Co</bdi></a>`);
    expect(failing.words).toContain("will be suspended: Shop & Co");
    expect(failing.words).not.toContain("Draft");
    const removed = await failing.send("remove");
    expect(removed.words).toContain("The domain was removed.");
    expect((await person.client.get(`/v1/service/platforms/${id}`)).body.publish_state).toBe("suspended");
    expect((await open(path)).status).toBe(404);
  });

  test("can be read, but not changed, by members who are not owners", async () => {
    const { approver, ids } = await organizationOf(api);
    const browser = browserOf(api, approver.client);
    const start = `/console/for/${ids.organization}/organization/domains`;
    for (const path of [start, `${start}/${ids.domain}`]) {
      const { text, words } = await browser.open(path);
      expect(words).toContain(ids.domain);
      expect(text.slice(text.indexOf("<main"))).not.toContain("<form");
    }
  });
});

describe("text from untrusted parties", () => {
  const paths = [
    "/console/organization",
    "/console/organization/members/{member}",
    "/console/organization/leave",
    "/console/organization/settings",
    "/console/activity",
  ];

  test.each(XSS_CORPUS)("appears escaped on the pages of an organization: %j", async (text) => {
    const [plain, hostile] = await Promise.all([
      organizationOf(api),
      organizationOf(api, { organization: text, first: text, last: text }),
    ]);
    for (const path of paths) {
      const [one, two] = await Promise.all(
        [plain, hostile].map(({ open, ids }) => open(path.replace("{member}", String(ids.member)))),
      );
      expect([path, two?.status]).toEqual([path, 200]);
      expect([path, markupOf(two?.text ?? "")]).toEqual([path, markupOf(one?.text ?? "no page")]);
    }
    const own = await browserOf(api, hostile.approver.client).open("/console/account");
    const usual = await browserOf(api, plain.approver.client).open("/console/account");
    expect(markupOf(own.text)).toEqual(markupOf(usual.text));
  });
});
