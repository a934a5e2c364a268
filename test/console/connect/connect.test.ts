import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RENEW, SIGN_IN } from "../../../src/console/core/places.ts";
import { CEILING, connectScene, type Product } from "../../connect/scene.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf } from "../support/console.ts";

let api: TestApi;
let scene: ReturnType<typeof connectScene>;
let shop: Product;
beforeAll(async () => {
  api = await startApi();
  scene = connectScene(api);
  shop = await scene.product();
});
afterAll(() => api.stop());

async function asked(more: Record<string, string> = {}) {
  const { verifier, requestId } = await scene.begun(shop, more);
  return { verifier, path: `/console/connect/${requestId}` };
}

describe("the page on which a person connects a product", () => {
  test("names the verified domain, the publisher, the most that agents may be lent, and the way back", async () => {
    const { open } = browserOf(api, (await api.person()).client);
    const page = await open((await asked()).path);
    expect(page.status).toBe(200);
    expect(page.words).toMatch(new RegExp(`From ✓ ${shop.domain} .*Shop Works`));
    expect(page.words).toContain("Connecting lends nothing yet.");
    expect(page.words).toContain("Refund an order");
    expect(page.words).toContain(`Either way, you return to https://${shop.domain}.`);
    expect(page.headers.get("content-security-policy")).toContain(
      `form-action 'self' https://${shop.domain};`,
    );
    const other = await open("/console");
    expect(other.headers.get("content-security-policy")).toContain("form-action 'self';");
  });

  test("connects with the scopes and the name that the person left, and returns with a code for the product", async () => {
    const person = await api.person();
    const { verifier, path } = await asked();
    const page = await browserOf(api, person.client).open(path);
    const left = { scopes: ["data:read"], shown_name: "Ada's bakery" };
    const back = new URL((await page.send("connect", left)).path);
    expect(`${back.origin}${back.pathname}`).toBe(shop.redirect);
    expect(back.searchParams.get("state")).toBe("xyz");
    const code = back.searchParams.get("code") ?? "";
    const { status, body } = await scene.exchange(shop, { code, verifier });
    expect([status, body]).toMatchObject([
      200,
      { scope: "data:read", org_id: person.accountId, org_name: "Ada's bakery" },
    ]);
  });

  test("asks again after the session has ended, because no other page's form may lead to the product", async () => {
    const { path } = await asked();
    const page = await browserOf(api, (await api.person()).client).open(path);
    api.clock.advance(901);
    const ended = await page.send("connect", { scopes: ["data:read"] });
    expect(ended.path).toContain(RENEW);
    const again = await ended.send("renew");
    expect(again.headers.get("content-security-policy")).toContain(
      `form-action 'self' https://${shop.domain};`,
    );
    const back = await again.send("connect", { scopes: ["data:read"] });
    expect(back.path).toContain(`${shop.redirect}?code=`);
  });

  test("leaves it to the person to tick a scope that the publisher calls sensitive", async () => {
    const careful = await scene.product();
    const words = { label: "Refund an order", description: "Pays money back", sensitive: true };
    const body = { scope_descriptions: { "custom:shop:refund": words } };
    await careful.owner.client.call("PATCH", `/v1/service/platforms/${careful.platformId}`, { body });
    const { requestId } = await scene.begun(careful);
    const page = await browserOf(api, (await api.person()).client).open(`/console/connect/${requestId}`);
    const box = (scope: string) => page.element("box", new RegExp(`(<input[^>]*value="${scope}"[^>]*>)`));
    expect(box("data:read")).toContain("checked");
    expect(box("custom:shop:refund")).not.toContain("checked");
  });

  test("returns without a connection when the person declines", async () => {
    const person = await api.person();
    const page = await browserOf(api, person.client).open((await asked()).path);
    const back = new URL(page.element("link", /<a class="button quiet" href="(https:[^"]*)"/));
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error: "access_denied", state: "xyz" });
    expect(await scene.customers(shop).where({ customer_account_id: person.accountId })).toEqual([]);
  });

  test("refuses to connect without scopes, and keeps what the person wrote", async () => {
    const page = await browserOf(api, (await api.person()).client).open((await asked()).path);
    const refused = await page.send("connect", { scopes: [], shown_name: "Bakery" });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('id="connect-scopes-fault"');
    expect(refused.text).toContain('value="Bakery"');
  });

  test("refuses a consent to words that the publisher has changed since", async () => {
    const changing = await scene.product();
    const { requestId } = await scene.begun(changing);
    const { open } = browserOf(api, (await api.person()).client);
    const page = await open(`/console/connect/${requestId}`);
    const words = { label: "Look at orders", description: "Reads them" };
    const body = { scope_descriptions: { "custom:shop:refund": words } };
    const path = `/v1/service/platforms/${changing.platformId}`;
    expect((await changing.owner.client.call("PATCH", path, { body })).status).toBe(200);
    const refused = await page.send("connect");
    expect(refused.status).toBe(400);
    expect(refused.words).toContain("has changed what it asks for");
    expect(refused.words).toContain("Look at orders");
  });

  test("waits for a person who has to sign in first, however long the request", async () => {
    const person = await api.person();
    const { path } = await asked({ state: "s".repeat(1_024), scope: CEILING.join(" ") });
    const browser = browserOf(api);
    const first = await browser.open(path);
    expect(first.path).toMatch(new RegExp(`^${SIGN_IN}`));
    const code = await first.send("send_code", { email: person.email });
    const page = await code.send("verify_code", { code: await browser.client.codeFor(person.email) });
    expect(page.words).toContain(`From ✓ ${shop.domain}`);
  });

  test("lets owners and approvers connect for an organization, and lets a developer propose", async () => {
    const owner = await api.person({ organization_name: "Bakers" });
    const developer = await addMember(api, owner.accountId, "developer");
    const approver = await addMember(api, owner.accountId, "approver");
    const { path } = await asked();
    const theirs = path.replace("/console", `/console/for/${owner.accountId}`);
    const { open } = browserOf(api, developer.client);
    expect((await open(path)).element("link", /<main.*?<a href="([^"]*)"><bdi>Bakers/s)).toBe(theirs);
    const looks = await open(theirs);
    expect(looks.words).toContain("You can propose this one.");
    expect(looks.text).not.toContain("form-connect");
    expect(looks.element("link", /<a class="button quiet" href="(https:[^"]*)"/)).toContain("access_denied");
    const page = await browserOf(api, approver.client).open(theirs);
    const back = new URL((await page.send("connect")).path);
    expect(back.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
  });

  test("does not exist for a request that was changed, or that is older than an hour", async () => {
    const { path } = await asked();
    api.clock.advance(3_601);
    const { open } = browserOf(api, (await api.person()).client);
    expect((await open(path)).status).toBe(404);
    const { path: current } = await asked();
    expect((await open(`${current}x`)).status).toBe(404);
    expect((await open(current)).status).toBe(200);
  });

  test("warns of a draft, and has a form for members of its publisher only", async () => {
    const draft = await scene.product({ isDraft: true });
    const { requestId } = await scene.begun(draft);
    const form = "Its agents may be lent at most";
    const stranger = browserOf(api, (await api.person()).client);
    const { words } = await stranger.open(`/console/connect/${requestId}`);
    expect(words).toContain("is a draft. Only members of its publisher can connect");
    expect(words).not.toContain(form);
    const member = await addMember(api, draft.owner.accountId, "auditor");
    expect((await browserOf(api, member.client).open(`/console/connect/${requestId}`)).words).toContain(form);
  });
});
