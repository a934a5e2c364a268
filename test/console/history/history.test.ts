import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SEARCHED } from "../../../src/history/search.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, markupOf, unescaped } from "../support/console.ts";
import { historyViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const listed = (text: string) => [...text.matchAll(/data-row="([^"]*)"/g)].map(([, id = ""]) => id);

describe("the history page", () => {
  test("lists decisions newest first, to the second, with names and in plain words", async () => {
    const seen = await historyViewer(api);
    const { words, text } = await seen.open("/console/history");
    const { allowed, denied, elsewhere } = seen.ids;
    expect(listed(text)).toEqual([elsewhere, denied, allowed]);
    expect(text).toMatch(/<time datetime="[^"]+" data-seconds>\d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC<\/time>/);
    expect(words).toContain("payments:send The delegation does not have this scope");
    expect(words).toContain("Warehouse decided elsewhere");
    expect(words).toMatch(/Allowed data:read \S.* Shop/);
  });

  test("filters by every field of its form, and treats a date as a whole day in UTC", async () => {
    // All events of the viewer must be on the same day in UTC.
    if (api.clock.now().getTime() % 86_400_000 < 600_000) api.clock.advance(600);
    const seen = await historyViewer(api);
    const { allowed, denied, presented, elsewhere, agentId, certId } = seen.ids;
    const day = api.clock.now().toISOString().slice(0, 10);
    const old = await seen.decide(86_400 * 3);
    const midnight = Date.parse(`${day}T00:00:00Z`);
    const before = new Date(midnight - 86_400_000).toISOString().slice(0, 10);
    const late = await seen.decide((api.clock.now().getTime() - midnight) / 1000 + 1);
    const cases: [query: string, events: (string | undefined)[]][] = [
      ["result=deny", [denied]],
      ["result=presented", [presented]],
      ["decision_reason=not_delegated", [denied]],
      ["required_scope=payments:send", [denied]],
      [`agent_id=${agentId}&result=allow`, [elsewhere, allowed, late, old]],
      [`cert_id=${certId}&result=deny`, [denied]],
      ["cert_id=another", []],
      [`from=${before}&result=allow`, [elsewhere, allowed, late]],
      [`from=${day}&result=allow`, [elsewhere, allowed]],
      [`to=${before}`, [late, old]],
      ["result=&from=&to=&required_scope=", [elsewhere, denied, allowed, late, old]],
    ];
    for (const [query, events] of cases) {
      expect([query, listed((await seen.open(`/console/history?${query}`)).text)]).toEqual([query, events]);
    }
  });

  test("offers ready-made filters", async () => {
    const seen = await historyViewer(api);
    const old = await seen.decide(86_400 * 8, { decision: "deny", event_type: "proof.rejected" });
    const { text } = await seen.open("/console/history");
    const link = /<a href="([^"]*)">Denied in the last 7 days</.exec(text)?.[1] ?? "";
    const week = await seen.open(link.replaceAll("&#38;", "&"));
    expect(listed(week.text)).toEqual([seen.ids.denied]);
    expect(listed(text)).toContain(old);
  });

  test("lists a proof without a decision on request only", async () => {
    const seen = await historyViewer(api);
    const { words, text } = await seen.open("/console/history?result=presented");
    expect(listed(text)).toEqual([seen.ids.presented]);
    expect(words).toContain("– Proof shown");
  });

  test("offers agents and platforms by name, and keeps an id from a link", async () => {
    const seen = await historyViewer(api);
    const { text } = await seen.open("/console/history?agent_id=another");
    expect(text).toMatch(new RegExp(`<option value="${seen.ids.agentId}">[^<]+</option>`));
    expect(text).toMatch(/<option value="[^"]+">Shop<\/option>/);
    expect(text).toContain('<option value="another" selected>another</option>');
  });

  test("searches names and what was asked for, and says if older decisions remain to be searched", async () => {
    const seen = await historyViewer(api);
    const { denied, elsewhere } = seen.ids;
    expect(listed((await seen.open("/console/history?search=payments%20shop")).text)).toEqual([denied]);
    expect(listed((await seen.open("/console/history?search=Warehouse")).text)).toEqual([elsewhere]);
    expect((await seen.open("/console/history?search=zebra")).words).toContain(
      "Nothing in the history matches",
    );
    await api.db.raw(
      `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision,
         decision_reason, required_scope)
       select account_id, occurred_at - n * interval '1 second', uuidv7(), event_type, connection_id, agent_id,
         decision, decision_reason, required_scope
       from audit_events, generate_series(1, ?) as n where event_id = ?`,
      [SEARCHED, seen.ids.allowed ?? ""],
    );
    const first = await seen.open("/console/history?search=zebra");
    expect(first.words).toContain("Nothing found in the decisions searched so far.");
    const next = first.element("link to the next page", /rel="next" href="([^"]*)"/);
    expect((await seen.open(next)).words).toContain("Nothing in the history matches");
    const wrong = await seen.open("/console/history?search=a+b+c+d+e+f+g+h+i");
    expect(wrong.words).toContain("The filters cannot be used: Query.search: has more than 8 words.");
  });

  test("counts no decisions for a live update, which shows only the list", async () => {
    const seen = await historyViewer(api);
    const update = await seen.open("/console/history?fresh=2026-01-01T00:00:00.000Z&seen=0");
    expect(listed(update.text)).toContain(seen.ids.denied);
    expect(update.words).not.toContain("Select a day to list its decisions.");
    expect((await seen.open("/console/history")).words).toContain("Select a day to list its decisions.");
  });

  test("links each day of the chart to the decisions of that day", async () => {
    const seen = await historyViewer(api);
    const day = new Date(api.clock.now().getTime() - 3 * 86_400_000).toISOString().slice(0, 10);
    const old = await seen.decide(86_400 * 3);
    const { text } = await seen.open("/console/history");
    const link = `/console/history?from=${day}&#38;to=${day}`;
    expect(text).toMatch(
      new RegExp(`<a href="${RegExp.escape(link)}" aria-label="[^"]*: 1 allowed, 0 denied`),
    );
    expect(listed((await seen.open(link.replace("&#38;", "&"))).text)).toEqual([old]);
  });

  test("explains an empty list and an invalid filter", async () => {
    const { client } = await api.person();
    const open = (query: string) => browserOf(api, client).open(`/console/history${query}`);
    expect((await open("")).words).toContain("Nothing was decided yet.");
    expect((await open("?result=deny")).words).toContain("Nothing in the history matches the filters.");
    const wrong = await open("?from=yesterday");
    expect([wrong.status, wrong.words.includes("The filters cannot be used:")]).toEqual([200, true]);
    expect(wrong.text).toContain('value="yesterday"');
  });

  test("has a link to older events that keeps the filter", async () => {
    const seen = await historyViewer(api);
    for (let age = 500; age < 530; age += 1) await seen.decide(age);
    const first = await seen.open("/console/history?result=allow");
    const next = first.element("link to the next page", /rel="next" href="([^"]*)"/);
    const second = await seen.open(next);
    expect([listed(first.text).length, listed(second.text).length]).toEqual([25, 7]);
    expect(new Set([...listed(first.text), ...listed(second.text)]).size).toBe(32);
    expect(second.text).not.toContain("data-tail");
    expect(second.words).toContain("Back to the beginning");
  });

  test("answers an update with the whole list if there are new events, and otherwise with nothing", async () => {
    const seen = await historyViewer(api);
    const recent = await seen.decide(3);
    const shown = await seen.open("/console/history");
    const poll = shown.element("part that is brought up to date", /hx-get="([^"]*)"/);
    const ask = () => seen.client.call("GET", poll, { headers: { "hx-request": "true" } });
    expect([(await ask()).status, (await ask()).text]).toEqual([204, ""]);
    // An event that is written later with an earlier time is also new.
    const late = await seen.decide(5);
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(listed(answer.text).slice(0, 2)).toEqual([recent, late]);
  });

  test("opens at an organization's URL for the organization's owner, but not for other accounts", async () => {
    const owner = await api.person({ organization_name: "Example Bank" });
    const stranger = await api.person();
    const path = `/console/for/${owner.accountId}/history`;
    expect((await browserOf(api, owner.client).open(path)).status).toBe(200);
    expect((await browserOf(api, stranger.client).open(path)).status).toBe(403);
  });

  test("escapes text from untrusted parties", async () => {
    // All viewers' events must be on the same day in UTC, or the charts have different bars.
    const sinceMidnight = api.clock.now().getTime() % 86_400_000;
    if (sinceMidnight < 600_000 || sinceMidnight > 86_280_000) api.clock.advance(720);
    const pages = (ids: Record<string, string>) => [
      "/console/history",
      `/console/history/${ids.denied}`,
      `/console/history/${ids.elsewhere}`,
    ];
    const ordinary = await historyViewer(api, {
      scope: "a",
      reason: "b",
      action: "c",
      platform: "d",
      organization: "e",
    });
    const expected: string[] = [];
    for (const path of pages(ordinary.ids)) expected.push(markupOf((await ordinary.open(path)).text).join());
    for (const strange of XSS_CORPUS) {
      const texts = {
        scope: strange,
        reason: strange,
        action: strange,
        platform: strange,
        organization: strange,
      };
      const seen = await historyViewer(api, texts);
      for (const [place, path] of pages(seen.ids).entries()) {
        const { text } = await seen.open(path);
        expect(markupOf(text).join()).toEqual(expected[place]);
        if (place < 2) expect(unescaped(text)).toContain(strange);
      }
    }
  });
});

describe("the page about an event", () => {
  test("shows for a denial the reason, each rule, and what would have been needed", async () => {
    const seen = await historyViewer(api);
    const { words, text } = await seen.open(`/console/history/${seen.ids.denied}`);
    expect(words).toContain("It was denied");
    expect(words).toContain("A delegation that has this scope.");
    expect(words).toContain("The delegation has data:read");
    expect(words).toMatch(/It is known that the delegation is not revoked\. . Passed/);
    expect(words).toMatch(/The delegation has the scope that is asked for\. . Failed/);
    expect(words).toMatch(/platform's current ceiling\. . Not reached/);
    expect(text).toContain(`href="/console/delegations/${seen.ids.certId}"`);
    expect(text).toContain(`href="/console/agents/${seen.ids.agentId}"`);
    expect(text).toContain(`href="/console/platforms/${seen.ids.platformId}"`);
  });

  test("shows no missing authority for an allowed decision, and no rules for a proof that was only presented", async () => {
    const seen = await historyViewer(api);
    const allowed = await seen.open(`/console/history/${seen.ids.allowed}`);
    expect(allowed.words).toContain("It was allowed");
    expect(allowed.words).not.toContain("What would have been needed");
    expect(allowed.words).not.toMatch(/Failed|Not reached/);
    const presented = await seen.open(`/console/history/${seen.ids.presented}`);
    expect(presented.words).toContain("A proof was shown");
    expect(presented.words).not.toContain("Rule by rule");
    const elsewhere = await seen.open(`/console/history/${seen.ids.elsewhere}`);
    expect(elsewhere.words).toContain("Warehouse of Example Traders");
    expect(elsewhere.words).not.toContain("Receipt");
  });

  test("does not exist for other accounts", async () => {
    const seen = await historyViewer(api);
    const other = await historyViewer(api);
    for (const path of ["", "/receipt"]) {
      expect((await other.open(`/console/history/${seen.ids.denied}${path}`)).status).toBe(404);
    }
  });
});
