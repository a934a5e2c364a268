import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf } from "../support/console.ts";
import { organizationOf } from "./organization.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ config: { SUPPORT_CONTACT: "help@example.test" } });
});
afterAll(() => api.stop());

function headerOf(text: string) {
  const header = (/<header.*?<\/header>/s.exec(text)?.[0] ?? "").replaceAll(/<\/?bdi>/g, "");
  const links = [...header.matchAll(/<a href="([^"]*)"([^>]*)>(?:<svg .*?<\/svg>)?(.*?)<\/a>/g)];
  return {
    words: header.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " "),
    links: Object.fromEntries(links.map(([, href = "", , name = ""]) => [name, href])),
    current: links
      .filter(([, , attributes]) => attributes?.includes("aria-current"))
      .map(([, , , name]) => name),
  };
}

describe("the account that a person acts for", () => {
  test("appears on every page, with the role and links to the person's other accounts", async () => {
    const { owner, approver, ids } = await organizationOf(api);
    const own = headerOf((await browserOf(api, approver.client).open("/console")).text);
    expect(own.words).toContain("Acting for Ada Lovelace Signed in as");
    expect(own.links["Analytical Engines"]).toBe(`/console/for/${ids.organization}`);
    expect(own.current).toEqual(["Home", "Ada Lovelace"]);
    const browser = browserOf(api, approver.client);
    const acting = headerOf((await browser.open(`/console/for/${ids.organization}`)).text);
    expect(acting.words).toContain("Acting for Analytical Engines , approver");
    expect(acting.links["Ada Lovelace"]).toBe("/console");
    const founder = headerOf((await browserOf(api, owner.client).open("/console")).text);
    expect(founder.words).toContain("Acting for Analytical Engines , owner");
    expect(founder.words).not.toContain("Act for");
  });

  test("can be changed, which leads to the same page, the list above it or the home page, as the role allows", async () => {
    const { approver, ids } = await organizationOf(api);
    const auditor = await addMember(api, String(ids.organization), "auditor");
    const other = await organizationOf(api);
    await api.db("organization_members").insert([
      {
        organization_id: ids.organization ?? "",
        account_id: other.owner.accountId,
        role: "auditor",
        joined_at: api.clock.now(),
      },
      {
        organization_id: ids.organization ?? "",
        account_id: other.approver.accountId,
        role: "owner",
        joined_at: api.clock.now(),
      },
    ]);
    const to = async (client: typeof approver.client, path: string, name: string) =>
      headerOf((await browserOf(api, client).open(path)).text).links[name];
    const start = `/console/for/${ids.organization}`;
    expect(await to(approver.client, "/console/credit", "Analytical Engines")).toBe(`${start}/credit`);
    expect(await to(approver.client, `${start}/credit`, "Ada Lovelace")).toBe("/console/credit");
    expect(await to(approver.client, `${start}/organization`, "Ada Lovelace")).toBe("/console");
    expect(await to(auditor.client, `${start}/organization/domains/${ids.domain}`, "Ada Lovelace")).toBe(
      "/console",
    );
    // A second organization has the same name. The last link is for the organization joined later.
    expect(await to(other.owner.client, "/console/organization/settings", "Analytical Engines")).toBe(
      `${start}/organization`,
    );
    expect(
      await to(other.owner.client, `/console/organization/domains/${other.ids.domain}`, "Analytical Engines"),
    ).toBe(`${start}/organization/domains`);
    expect(await to(other.owner.client, "/console/activity", "Analytical Engines")).toBe(`${start}/activity`);
  });

  test("must be an account that the person is a member of, and the pages of any other account show an explanation", async () => {
    const { approver, ids } = await organizationOf(api);
    const browser = browserOf(api, approver.client);
    const start = `/console/for/${ids.organization}`;
    const opened = await browser.open(`${start}/organization/leave`);
    await api.db("organization_members").where({ account_id: approver.accountId }).delete();
    const sent = await opened.send("leave");
    for (const shown of [sent, await browser.open(start), await browser.open(`${start}/credit`)]) {
      expect(shown.status).toBe(403);
      expect(shown.words).toContain("You cannot act for this account");
      expect(shown.text).not.toContain("Analytical Engines");
      expect(headerOf(shown.text).links.Home).toBeUndefined();
    }
    const unknown = await browser.open("/console/for/8220ed9d-87bc-4639-b25f-c0609a1bc8d1/credit");
    const gone = await browser.open(`${start}/credit`);
    const anonymous = (text: string) => text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "id");
    expect(anonymous(unknown.text)).toBe(anonymous(gone.text));
    expect(gone.text).toContain('href="/console/account"');
  });

  test("does not exist after a person has left their only organization, and invitations can still be accepted", async () => {
    const { owner } = await organizationOf(api);
    const browser = browserOf(api, owner.client);
    const invite = await browser.open("/console/organization/invite");
    const left = await (await browser.open("/console/organization/leave")).send("leave");
    expect([left.status, left.path]).toEqual([200, "/console/account?notice=left"]);
    expect(left.words).toContain("You left the organization.");
    expect(left.words).toContain("Acting for nobody");
    expect(left.words).toContain("You may act for nobody at the moment.");
    expect((await browser.open("/console/credit")).path).toBe("/console/account");
    const sent = await invite.send("invite", { email: "friend@example.test", role: "auditor" });
    expect([sent.status, sent.words]).toEqual([
      403,
      expect.stringContaining("Nothing was shown, and nothing was changed."),
    ]);
    expect((await browser.open("/console/invitations/accept")).status).toBe(200);
  });

  test("comes from the page's URL, even if a second tab shows a page of a different account", async () => {
    const { approver, ids } = await organizationOf(api);
    const client = approver.client;
    const first = await browserOf(api, client).open(`/console/for/${ids.organization}/credit`);
    const second = await browserOf(api, client).open("/console/credit");
    expect(first.words).toContain(String(ids.organization));
    expect(second.words).toContain(approver.accountId);
    expect(second.words).not.toContain(String(ids.organization));
  });
});

describe("the credit of an account", () => {
  test("appears on every page if it is low, for every role, with the contact for more credit", async () => {
    const { approver, ids } = await organizationOf(api);
    const browser = browserOf(api, approver.client);
    const start = `/console/for/${ids.organization}`;
    const set = (balance_micro_usd: number) =>
      api
        .db("balances")
        .where({ account_id: String(ids.organization) })
        .update({ balance_micro_usd });
    const bannerOf = (text: string) => /<aside class="credit-banner.*?<\/aside>/s.exec(text)?.[0] ?? "";
    expect(bannerOf((await browser.open(start)).text)).toBe("");
    await set(2_000_000);
    for (const path of [start, `${start}/organization`, `${start}/organization/domains`]) {
      const { text } = await browser.open(path);
      expect([path, bannerOf(text)]).toEqual([path, expect.stringContaining("Credit runs low.")]);
      expect(bannerOf(text)).toContain(`href="${start}/credit"`);
    }
    expect(bannerOf((await browser.open("/console")).text)).toBe("");
    await set(1_999);
    expect(bannerOf((await browser.open(start)).text)).toContain("Credit is used up");
    const page = await browser.open(`${start}/credit`);
    expect(bannerOf(page.text)).toBe("");
    expect(page.words).toContain("Credit is used up. No decision is made until there is more.");
    for (const { text } of [page, await browser.open(start)]) {
      expect(text).toContain('<a href="mailto:help@example.test">help@example.test</a>');
    }
  });

  test("has a page with the remaining credit, the postings and their reasons", async () => {
    const { owner, ids } = await organizationOf(api);
    const account_id = String(ids.organization);
    const times = Array.from({ length: 30 }, (_, n) => new Date(api.clock.now().getTime() + n * 1000));
    await api.db("ledger_postings").insert(
      times.map((posted_at, n) => ({
        ...{ account_id, posted_at, posting_id: Buffer.alloc(32, n + 1), kind: "verification" as const },
        ...{ debit_book: "credit" as const, credit_book: "revenue" as const, amount_micro_usd: 2_000 },
      })),
    );
    const browser = browserOf(api, owner.client);
    const first = await browser.open("/console/credit");
    expect(first.words).toContain("10.00 US dollars Enough for 5,000 decisions.");
    expect(first.words).toContain("A decision costs 0.002 US dollars");
    expect(first.words).toContain("A decision −0.002");
    expect(first.words).not.toContain("Credit to begin with");
    const next = first.element("link to the next page", /rel="next" href="([^"]*)"/);
    expect((await browser.open(next)).words).toContain("Credit to begin with +10.00");
  });

  test("appears with a link to the contact page, or with a general text if there is no contact", async () => {
    const { whomToAsk } = await import("../../../src/console/pages/credit.ts");
    const { texts } = await import("../../../src/console/texts/texts.ts");
    const ask = (contact: string | undefined) => String(whomToAsk({ contact, texts } as never));
    expect(ask("https://example.test/credit")).toContain('<a href="https://example.test/credit">');
    expect(ask(undefined)).toBe("Ask the people who run this service for more credit.");
  });
});
