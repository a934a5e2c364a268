import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { en } from "../../src/console/texts/en.ts";
import { decisionReasons } from "../../src/proofs/verify/verdict.ts";
import type { PlatformApi } from "../support/platform_world.ts";
import { XSS_CORPUS } from "../support/xss_corpus.ts";
import { markupOf, startConsole } from "./support/console.ts";
import { viewerOf } from "./support/visits.ts";

let api: PlatformApi;
beforeAll(async () => {
  api = await startConsole();
});
afterAll(() => api.stop());

describe("home", () => {
  test("has words for every reason of a denial", () => {
    expect(Object.keys(en.decisions.reasons).sort()).toEqual([...decisionReasons.deny].sort());
  });

  test("shows what waits, is active, was denied, and what credit is left", async () => {
    const { words, text } = await (await viewerOf(api, "busy")).open("/console");
    expect(words).toContain("Hello, Ada");
    expect(words).toContain("1 request waits for you");
    expect(words).toContain("An agent asks for 2 scopes");
    expect(words).toContain("Active delegations: 1");
    expect(words).toContain("custom:orders:refund : The delegation does not have this scope");
    expect(words).toContain("10.00 US dollars");
    expect(words).toContain("Enough for 5,000 decisions.");
    expect(words).toMatch(/At the rate of the last 7 days it lasts more than 999 days\./);
    expect(text.match(/<rect class="allow"/g)?.length).toBeGreaterThan(10);
    expect(text).toContain('hx-get="/console"');
  });

  test("says so where there is nothing", async () => {
    const { words, text } = await (await viewerOf(api, "complete")).open("/console");
    for (const said of [
      "Nothing waits for you",
      "No agent may do anything",
      "Nothing was denied",
      "Nothing was used",
    ]) {
      expect(words).toContain(said);
    }
    expect(text).not.toContain("<rect");
  });

  test("says when credit runs low, and how long it lasts", async () => {
    const poor = await startConsole({ alphaCredits: 60_000 });
    const seen = await viewerOf(poor, "busy");
    const { words } = await seen.open("/console");
    expect(words).toContain("Enough for 30 decisions.");
    expect(words).toMatch(/it lasts \d days?\./);
    await poor.db("balances").update({ balance_micro_usd: 1_000 });
    expect((await seen.open("/console")).words).toContain("Your credit runs low.");
    await poor.stop();
  });

  test("brings a part up to date, and leaves it as it is when the session has ended", async () => {
    const { client } = await viewerOf(api, "complete");
    const headers = { "hx-request": "true" };
    expect((await client.get("/console", { headers })).status).toBe(200);
    expect((await api.client().get("/console", { headers })).status).toBe(204);
  });

  test.each(XSS_CORPUS)("shows what strangers wrote as text: %j", async (text) => {
    const plain = await (await viewerOf(api, "busy")).open("/console");
    const hostile = await (await viewerOf(api, "busy", { scope: text, denied: text })).open("/console");
    expect(markupOf(hostile.text)).toEqual(markupOf(plain.text));
  });
});

describe("a request", () => {
  const reason = XSS_CORPUS.filter((text) => !/[\u202a-\u202e\u2066-\u2069]/.test(text))
    .join(" ")
    .slice(0, 490);

  test("shows what is asked, and is approved narrower", async () => {
    const seen = await viewerOf(api, "busy");
    const path = `/console/requests/${seen.ids.request}`;
    const asked = await seen.open(path);
    expect(asked.words).toContain("1 day after you approve");
    const none = await asked.send("approve", { approved_scope: "" });
    expect(none.status).toBe(400);
    const home = await asked.send("approve", { approved_scope: "data:read" });
    expect(home.words).toContain("Approved.");
    const shown = await seen.client.get(`/v1/service/delegations/requests/${seen.ids.request}`);
    expect(shown.body).toMatchObject({ status: "approved", approved_scope: ["data:read"] });
    expect((await seen.open(path)).words).toContain("You approved this request");
  });

  test("is denied with a reason", async () => {
    const seen = await viewerOf(api, "busy");
    const asked = await seen.open(`/console/requests/${seen.ids.request}`);
    expect((await asked.send("deny", { reason: "not now" })).words).toContain("Denied.");
    expect((await asked.send("approve")).status).toBe(409);
  });

  test("is nobody else's", async () => {
    const { ids } = await viewerOf(api, "busy");
    const other = await viewerOf(api, "complete");
    expect((await other.open(`/console/requests/${ids.request}`)).status).toBe(404);
  });

  test("shows a hostile reason as text", async () => {
    const [one, two] = await Promise.all(
      [reason, "text"].map(async (given) => {
        const seen = await viewerOf(api, "busy");
        const path = `/console/requests/${seen.ids.request}`;
        await (await seen.open(path)).send("deny", { reason: given });
        return seen.open(path);
      }),
    );
    expect(markupOf(one?.text ?? "")).toEqual(markupOf(two?.text ?? "no page"));
    expect(one?.words).toContain("<script>globalThis.stolen = 1</script>");
  });
});
