import { describe, expect, test } from "vitest";
import { certify, proofApi } from "../../proofs/application.ts";
import { askingAgent, evaluationOf, taskOf, withPayload } from "../../proofs/asking/asking.ts";
import { decide, operationOf, BOUND_SCOPE as SCOPE } from "../../proofs/bound_operations.ts";
import { addMember } from "../../support/members.ts";
import { browserOf, formIn } from "../support/console.ts";

const world = proofApi();

/** An agent asks about a refused payment. Opens the page of its request. */
async function asked({ shows = true, payload = { amount: 5, to: "bob" } as object, scopes = [SCOPE] } = {}) {
  const app = await askingAgent(world);
  const operation = withPayload(app, payload);
  const context = { purpose: "Pay the invoice of mallory", ...(shows && { operation, payload }) };
  const { id } = taskOf(await app.ask(await app.refused(operation), { scopes, context }));
  const browser = browserOf(world.api, app.person.client);
  const page = await browser.open(`/console/requests/${id}`);
  const certificate = async () =>
    world.api
      .db("certificates")
      .where({ request_id: id })
      .first("expires_at", "only_action", "approved_scope");
  return { id, page, browser, certificate };
}

const chosen = (text: string) => /<input[^>]*name="lasting"[^>]*value="(\w+)"[^>]* checked/.exec(text)?.[1];

describe("the page about a request that an agent made itself", () => {
  test("shows the refused action apart from the agent's own words", async () => {
    const { page } = await asked();
    expect(page.words).toContain("Why, in the agent's own words. Nobody has checked them");
    expect(page.text).toContain("<q>Pay the invoice of mallory</q>");
    const [, action = ""] = page.words.split("The refused action");
    expect(action).toContain("Application Shop");
    expect(action).toContain("refund");
    expect(action).toContain('"amount": 5');
    expect(action.split("It may")[0]).not.toContain("mallory");
    expect(page.words).toContain("The agent asked itself, with its API key");
  });

  test("opens for an approver of an organization at the link that the agent shows", async () => {
    const owner = await world.api.person({ organization_name: "Bakers" });
    const approver = await addMember(world.api, owner.accountId, "approver");
    const app = await askingAgent(world, owner);
    const { links } = taskOf(await app.ask(await app.refused()));
    const { open } = browserOf(world.api, approver.client);
    const page = await open(links.console?.replace("http://127.0.0.1", "") ?? "");
    expect([page.status, page.words]).toEqual([200, expect.stringContaining("asks to act for Bakers")]);
    expect((await page.send("approve")).words).toContain("was given authority");
  });

  test("warns of content that the agent did not show, and writes invisible characters as codes", async () => {
    const hidden = (await asked({ shows: false })).page;
    expect(hidden.words).toContain("The agent did not show the action");
    expect(chosen(hidden.text)).toBe("days");
    const { page } = await asked({ payload: { to: "\u202ebob" } });
    expect(page.text).toContain("\\u{202e}bob");
    expect(page.text).not.toContain("\u202e");
  });

  test("says about which values the refused limit speaks, and that they are no part of the action", async () => {
    const app = await askingAgent(world);
    await certify(app, [SCOPE], { constraints: [{ type: "max_amount", max_amount: 5, currency: "EUR" }] });
    const payload = { to: "bob" };
    const operation = withPayload(app, payload);
    const { proof_bundle } = (await app.present({ operation, required_scope: SCOPE })).body;
    const context = { amount: 14_999, currency: "EUR" };
    const denied = await decide(app, proof_bundle, operation, { context });
    const { id } = taskOf(await app.ask(evaluationOf(denied), { context: { operation, payload } }));
    const shown = await app.person.client.get(`/v1/service/delegations/requests/${id}`);
    expect(shown.body.refusal).toMatchObject({ sent: { amount: "15000" }, values: "rounded" });
    const { words } = await browserOf(world.api, app.person.client).open(`/console/requests/${id}`);
    expect(words).toContain("Sent: amount about 15000");
    expect(words).not.toContain("about EUR");
    expect(words).toContain("are not part of the action");
  });

  test("says whether the application belongs to another account", async () => {
    expect((await asked()).page.words).not.toContain("another account");
    const [app, shop] = [await askingAgent(world), await askingAgent(world)];
    const operation = operationOf({ ...shop, agentId: app.agentId });
    const { id } = taskOf(await app.ask(await app.refused(operation), { context: { operation } }));
    const { words } = await browserOf(world.api, app.person.client).open(`/console/requests/${id}`);
    expect(words).toContain("Shop of another account");
  });

  test("approves only the refused action if the person changes nothing but the box", async () => {
    const { id, page, certificate, browser } = await asked({ scopes: [SCOPE, "data:share"] });
    expect(chosen(page.text)).toBe("once");
    expect(formIn(page, "approve").fields).toHaveProperty("lasting");
    await page.send("approve", { approved_scope: [SCOPE, "data:share"], lasting: "once" });
    expect(await certificate()).toMatchObject({ approved_scope: [SCOPE], only_action: expect.any(Buffer) });
    const decided = await browser.open(`/console/requests/${id}`);
    expect(decided.words).toContain("The refused action");
    expect(decided.words).toContain("keeps the content of an action only until the decision");
  });

  test.each([
    ["days", {}, 30 * 86_400],
    ["asked", {}, undefined],
    ["other", { end_number: "2", end_unit: "3600" }, 7_200],
  ])("approves %s for as long as the person chose", async (lasting, fields, seconds) => {
    const { page, certificate } = await asked();
    await page.send("approve", { approved_scope: [SCOPE], lasting, ...fields });
    const { expires_at, only_action } = (await certificate()) ?? {};
    expect(only_action).toBeNull();
    const lasts = expires_at && (expires_at.getTime() - world.api.clock.now().getTime()) / 1000;
    if (seconds === undefined) expect(lasts).toBeNull();
    else expect(Math.abs(Number(lasts) - seconds)).toBeLessThan(2);
  });

  test("shows an error if the person ticks nothing", async () => {
    const { page, certificate } = await asked();
    const refused = await page.send("approve", { approved_scope: [], lasting: "once" });
    expect(refused.status).toBe(400);
    expect(await certificate()).toBeUndefined();
  });
});
