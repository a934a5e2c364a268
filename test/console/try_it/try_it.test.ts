import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { errorCode } from "../../support/platform_world.ts";
import { browserOf, type Shown, unescaped } from "../support/console.ts";
import { copied, pasted } from "../support/shell.ts";
import type { Seen } from "../support/visits.ts";
import { triedViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const open = (viewer: Seen) => viewer.open(`/console/try?delegation=${viewer.ids.cert}`);
const headingOf = ({ text }: Shown) => /<h1>([^<]*)<\/h1>/.exec(text)?.[1];

const resultsOf = ({ words }: Shown) => words.match(/\b(Passed|Failed|Not reached)\b/g) ?? [];

async function decisionsOf({ ids }: Seen): Promise<number> {
  const rows = await api
    .db("audit_events")
    .where({ cert_id: ids.cert ?? "" })
    .whereNotNull("decision");
  return rows.length;
}

describe("the trial page", () => {
  test("states the price, and shows the decision, every rule, the calls and the receipt", async () => {
    const viewer = await triedViewer(api);
    const page = await open(viewer);
    expect(page.words).toContain("This is a real decision: it costs 0.002 US dollars");
    expect(page.words).toContain("the amount is at most 250 EUR");
    const result = await page.send("try");
    expect([result.status, headingOf(result)]).toEqual([200, "Allowed"]);
    expect(new Set(resultsOf(result))).toEqual(new Set(["Passed"]));
    expect(resultsOf(result)).toHaveLength(21);
    expect(result.words).toContain("allow authorized");
    expect(result.words).not.toContain("What would have been needed");
    for (const call of ["challenge", "present", "verify"]) expect(result.text).toContain(`/${call}</code>`);
    const receipt = result.element("link to its event", /href="(\/console\/history\/[^"]+)"/);
    const row = await api
      .db("audit_events")
      .where({ cert_id: viewer.ids.cert ?? "" })
      .whereNotNull("decision")
      .first();
    expect(unescaped(receipt)).toBe(`/console/history/${row?.event_id}`);
    expect(result.headers.get("cache-control")).toBe("no-store");
  });

  test("shows why a scope is denied, which scope was requested, and what the delegation allows", async () => {
    const viewer = await triedViewer(api);
    const result = await (await open(viewer)).send("try", { another_scope: "files:read" });
    expect(headingOf(result)).toBe("Denied");
    expect(result.words).toContain("The delegation does not have this scope");
    expect(result.words).toContain("What would have been needed A delegation that has this scope.");
    expect(result.words).toMatch(/Asked for files:read The delegation has data:read payments:send/);
    expect(resultsOf(result).filter((each) => each === "Failed")).toHaveLength(1);
    expect(resultsOf(result).slice(-3)).toEqual(["Passed", "Failed", "Not reached"]);
  });

  test("sends the values for constraints, and omits empty values", async () => {
    const viewer = await triedViewer(api);
    const over = await (await open(viewer)).send("try", { "context.amount": "250,01" });
    expect(headingOf(over)).toBe("Denied");
    expect(over.words).toContain("Amount: 250.01");
    expect(over.words).toContain("exceeds max 250.00 EUR");
    const empty = await (await open(viewer)).send("try", { "context.amount": "", "context.currency": "" });
    expect(empty.words).toContain("no amount and currency were supplied");
    const wrong = await (await open(viewer)).send("try", { "context.amount": "much" });
    expect([wrong.status, wrong.words.includes("Write a number without marks between thousands")]).toEqual([
      400,
      true,
    ]);
    expect(wrong.text).toContain('value="much"');
    const unclear = await (await open(viewer)).send("try", { "context.amount": "1,000" });
    expect([unclear.status, unclear.words.includes("This can be read as 1000 or as 1.")]).toEqual([
      400,
      true,
    ]);
    expect(await decisionsOf(viewer)).toBe(2);
  });

  test.each(["payments", "data:*"])("shows at its field that %s is not a scope", async (scope) => {
    const viewer = await triedViewer(api);
    const result = await (await open(viewer)).send("try", { another_scope: scope });
    expect(result.status).toBe(400);
    expect(result.text).toMatch(/id="try-another_scope-fault">[^<]+</);
    expect(await decisionsOf(viewer)).toBe(0);
  });

  test("shows why a revoked delegation gets no decision, and charges nothing", async () => {
    const viewer = await triedViewer(api);
    await viewer.client.post(`/v1/service/delegations/${viewer.ids.cert}/revoke`, { reason: "laptop lost" });
    const page = await open(viewer);
    expect(page.words).toContain("State revoked");
    const result = await page.send("try");
    expect([result.status, headingOf(result)]).toEqual([200, "There was no decision"]);
    expect(result.words).toContain("Nothing was charged");
    expect(result.words).toContain("Reason given laptop lost");
    expect(new Set(resultsOf(result))).toEqual(new Set(["Not reached"]));
    expect(result.words).toContain("no_active_delegation");
    expect(await decisionsOf(viewer)).toBe(0);
  });

  test("says that there is no credit", async () => {
    const viewer = await triedViewer(api);
    const { account_id } = (await viewer.client.get("/v1/auth/session")).body;
    await api
      .db("balances")
      .where({ account_id: String(account_id) })
      .update({ balance_micro_usd: 0 });
    const result = await (await open(viewer)).send("try");
    expect(headingOf(result)).toBe("There was no decision");
    expect(result.words).toContain("Credit for a decision.");
  });

  test("charges once for a form that is sent twice", async () => {
    const viewer = await triedViewer(api);
    const page = await open(viewer);
    const [first, second] = [await page.send("try"), await page.send("try")];
    expect(second.text.replaceAll(/ends-in-\d+|data-session-seconds="\d+"/g, "")).toBe(
      first.text.replaceAll(/ends-in-\d+|data-session-seconds="\d+"/g, ""),
    );
    expect(await decisionsOf(viewer)).toBe(1);
  });

  test("shows shell commands that get the same decision", async () => {
    const viewer = await triedViewer(api);
    for (const [values, decision] of [
      [{}, "allow"],
      [{ "context.amount": "300" }, "deny"],
    ] as const) {
      const result = await (await open(viewer)).send("try", values);
      const answer = await pasted(api, copied(result, "curl"), viewer.ids.key ?? "");
      expect(answer).toMatchObject({ decision, cert_id: viewer.ids.cert });
    }
  });
});

describe("the trial page with no, one or several delegations", () => {
  test("selects a single delegation automatically, and explains what to do if there is none", async () => {
    const viewer = await triedViewer(api);
    const page = await viewer.open("/console/try");
    expect(page.words).toContain("What does the agent want to do");
    expect(headingOf(await page.send("try"))).toBe("Allowed");
    const empty = await browserOf(api, (await api.person()).client).open("/console/try");
    expect(empty.words).toContain("There is no delegation to try yet");
  });

  test("first asks for the delegation if there are several, and keeps the selection after a failure", async () => {
    const person = await api.person({ organization_name: "Engines" });
    const [one, other] = [
      await triedViewer(api, { person }),
      await triedViewer(api, { person, agent: "second" }),
    ];
    const page = await one.open("/console/try");
    expect(page.words).not.toContain("What does the agent want to do");
    expect(page.words).toContain("second on Webshop: 2 scopes, active");
    const failed = await (await open(other)).send("try", { another_scope: "nonsense" });
    expect(failed.text).toContain(`value="${other.ids.cert}" selected`);
  });

  test("says that the delegation's platform was removed", async () => {
    const viewer = await triedViewer(api);
    const path = `/v1/service/connections/${viewer.ids.connection}`;
    expect((await viewer.client.call("DELETE", path)).status).toBe(200);
    const page = await viewer.open("/console/try");
    expect([page.status, page.words.includes("The platform was removed")]).toEqual([200, true]);
    expect(() => page.send("try")).toThrow("There is no form try");
  });

  test("does not find a different account's delegation, whether the URL or the form names it", async () => {
    const [viewer, stranger] = [await triedViewer(api), await triedViewer(api)];
    const page = await open(viewer);
    expect((await viewer.open(`/console/try?delegation=${stranger.ids.cert}`)).status).toBe(404);
    expect((await page.send("try", { delegation: stranger.ids.cert ?? "" })).status).toBe(404);
    expect(await decisionsOf(stranger)).toBe(0);
  });
});

describe("members of an organization", () => {
  test.each([
    ["developer", true],
    ["approver", false],
    ["auditor", false],
  ] as const)("may open the trial page with the role %s: %s", async (role, offered) => {
    const owner = await api.person({ organization_name: "Engines" });
    const { ids } = await triedViewer(api, { person: owner });
    const member = browserOf(api, (await addMember(api, owner.accountId, role)).client);
    const place = `/console/for/${owner.accountId}/try`;
    const page = await member.open(`${place}?delegation=${ids.cert}`);
    expect(page.status).toBe(offered ? 200 : 403);
    expect(page.text.includes(`href="${place}"`)).toBe(offered);
    if (offered) {
      expect(headingOf(await page.send("try"))).toBe("Allowed");
    } else {
      expect(page.words).toContain("Your role does not allow this");
      expect(() => page.send("try")).toThrow("There is no form try");
      const path = `/v1/service/connections/${ids.connection}/agents/${ids.agent}/try`;
      const headers = { "x-service-account": owner.accountId };
      const body = { required_scope: "data:read" };
      expect(errorCode(await member.client.post(path, body, { headers }))).toBe("forbidden");
    }
  });
});
