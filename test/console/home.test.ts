import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { texts } from "../../src/console/texts/texts.ts";
import { decisionReasons } from "../../src/proofs/decide/reasons.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { createAgent, registerPlatform, selfRequest } from "../support/platform_world.ts";
import { organizationOf } from "./organization/organization.ts";
import { browserOf } from "./support/console.ts";
import { viewerOf } from "./support/visits.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

describe("the home page", () => {
  test("has a text for every reason of a denied or indeterminate decision", () => {
    expect(Object.keys(texts.decisions.reasons).sort()).toEqual(
      [...decisionReasons.deny, ...decisionReasons.indeterminate].sort(),
    );
  });

  test("shows pending requests, active delegations, denials and the remaining credit", async () => {
    const { words, text } = await (await viewerOf(api, "busy")).open("/console");
    expect(words).toContain("Hello, Ada");
    expect(words).toContain("1 request waits for you");
    expect(words).toContain("shop-bot of Shop asks");
    expect(words).toMatch(/Active delegations: 1 shop-bot of Shop data:read payments:send/);
    expect(words).toContain("custom:orders:refund : The delegation does not have this scope");
    expect(words).toContain("10.00 US dollars");
    expect(words).toContain("Enough for 5,000 decisions.");
    expect(words).toMatch(/At the rate of the last 7 days it lasts more than 999 days\./);
    expect(text.match(/<rect class="allow"/g)?.length).toBeGreaterThan(10);
    expect(text).toContain('hx-get="/console"');
    expect(text).toMatch(/<a href="\/console\/delegations\/cert-[^"]+"><bdi>shop-bot</);
    expect(text).toMatch(/<a href="\/console\/history\/[^"]+"><bdi>shop-bot</);
    expect(text).toContain('<a href="/console/history?result=deny">');
  });

  test("shows a platform's label of a denied scope instead of the scope", async () => {
    const viewer = await viewerOf(api, "busy");
    await api.db("platforms").update({
      scope_descriptions: {
        "custom:orders:refund": { label: "Refund orders", description: "Pays back", sensitive: false },
      },
    });
    const { words } = await viewer.open("/console");
    expect(words).toContain("Refund orders: The delegation does not have this scope");
    expect(words).not.toContain("custom:orders:refund :");
  });

  test("leads a new account from step to step, until a check was allowed", async () => {
    const person = await api.person();
    const browser = browserOf(api, person.client);
    const next = async () =>
      (await browser.open("/console")).text.match(/class="button" href="(\/console[^"]+)"/)?.[1];
    expect(await next()).toBe("/console/platforms/new");
    const platform = await registerPlatform(person, {});
    expect(await next()).toBe("/console/agents");
    const agentId = await createAgent(api.client(), platform);
    expect(await next()).toBe(`/console/agents/${agentId}/ask`);
    const requestId = await selfRequest(person, platform.connectionId, {});
    expect(await next()).toBe(`/console/requests/${requestId}`);
    const path = `/v1/service/delegations/requests/${requestId}/approve`;
    await person.client.post(path, { approved_scope: ["data:read"] });
    expect(await next()).toBe("/console/try");
    const { text } = await browser.open("/console");
    expect(text.match(/>Done</g)).toHaveLength(4);
    expect(text).toContain(`agentId: &#34;${agentId}&#34;`);
    const busy = await viewerOf(api, "busy");
    expect((await busy.open("/console")).words).not.toContain("Your first steps");
  });

  test("shows no first steps to a member who may not create agents", async () => {
    const { approver, owner } = await organizationOf(api);
    const { words } = await browserOf(api, approver.client).open(`/console/for/${owner.accountId}`);
    expect(words).toContain("Nothing waits for you");
    expect(words).not.toContain("Your first steps");
  });

  test("explains empty lists", async () => {
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

  test("shows when credit is low, and how long it will last", async () => {
    const poor = await startApi({ config: { ALPHA_CREDITS_MICRO_USD: 60_000 } });
    const seen = await viewerOf(poor, "busy");
    const { words } = await seen.open("/console");
    expect(words).toContain("Enough for 30 decisions.");
    expect(words).toMatch(/it lasts \d days?\./);
    await poor.db("balances").update({ balance_micro_usd: 1_000 });
    expect((await seen.open("/console")).words).toContain(
      "Credit is used up. No decision is made until there is more.",
    );
    await poor.stop();
  });

  test("can be updated while it is open, but not after the session has expired", async () => {
    const { client } = await viewerOf(api, "complete");
    const headers = { "hx-request": "true" };
    expect((await client.get("/console", { headers })).status).toBe(200);
    expect((await api.client().get("/console", { headers })).status).toBe(401);
    const path = "/console/for/8220ed9d-87bc-4639-b25f-c0609a1bc8d1";
    expect((await client.get(path, { headers })).status).toBe(403);
  });
});
