import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { mailingApi } from "../accounts/mailings/mailing_world.ts";
import { actingFor } from "../support/members.ts";
import { type Acting, DAY, ORGANIZATION, PROPOSALS, proposalScene, seen } from "./proposal_scene.ts";

const api = mailingApi();
const scene = proposalScene(api);
const {
  product,
  customers,
  parameters,
  verifierOf,
  post,
  authorize,
  requestIdOf,
  organization,
  read,
  propose,
  approve,
  connect,
  later,
  stored,
  approved,
  expectEnded,
} = scene;

describe("an approval", () => {
  test("lets a developer connect with its scopes only, and the consent names who approved and what they read", async () => {
    const { id, approver, developer, proposal } = await approved();
    const one = await developer.acting.get(`${PROPOSALS}?proposal_id=${proposal.proposal_id}`);
    expect((one.body.items as object[])[0]).toMatchObject({
      ...{ proposal_id: proposal.proposal_id, state: "approved", approved_by: approver.person.email },
      expires_at: addSeconds(api.clock.now(), 30 * DAY).toISOString(),
    });
    const wide = await connect(developer.acting, ["data:read", "data:share"]);
    expect(seen(wide.decided)).toEqual([400, "ceiling_exceeded"]);
    const { shown, exchanged } = await connect(developer.acting, ["custom:shop:refund"]);
    expect(shown).toMatchObject({
      permission: "connect_approved",
      approved_scopes: ["data:read", "custom:shop:refund"],
      approved_by: approver.person.email,
    });
    const { status, body, text } = await exchanged();
    expect([status, body.org_id]).toEqual([200, id]);
    expect(text).not.toContain(approver.person.email);
    const [consent] = await api.db("connect_consents").where({ connection_id: String(body.connection_id) });
    expect(consent).toMatchObject({
      ...{ person_id: developer.person.accountId, approved_by: approver.person.accountId },
      approved_consent: {
        ...{ published_domain: scene.shop.domain, scopes: ["data:read", "custom:shop:refund"] },
        scope_descriptions: { "custom:shop:refund": { label: "Refund an order" } },
      },
    });
    const connected = await developer.acting.get(`/v1/service/connected-products/${body.connection_id}`);
    expect(connected.body.consent).toMatchObject({
      ...{ by: developer.person.email, approved_by: approver.person.email },
      approved_at: api.clock.now().toISOString(),
    });
  });

  test("takes no scopes away from a connection, which the members who connect products do", async () => {
    const { id, owner, developer } = await approved();
    const own = actingFor(owner, id);
    const code = await connect(developer.acting, ["data:read"]);
    const { body } = await (await connect(own, ["data:read", "custom:shop:refund"])).exchanged();
    expect((await code.exchanged()).body.error_description).toMatch(/^forbidden: /);
    const fewer = await connect(developer.acting, ["data:read"]);
    expect(seen(fewer.decided)).toEqual([403, "forbidden"]);
    const product = await own.get(`/v1/service/connected-products/${body.connection_id}`);
    expect(product.body.allowed_scopes).toEqual(["custom:shop:refund", "data:read"]);
    const all = await connect(developer.acting, ["data:read", "custom:shop:refund"]);
    expect((await all.exchanged()).status).toBe(200);
  });

  test("leaves it to a developer to propose if it allows less than the connection has", async () => {
    const { id, owner, developer } = await approved(["data:read"]);
    const own = actingFor(owner, id);
    expect((await read(developer.acting)).body.permission).toBe("connect_approved");
    await (await connect(own, ["data:read", "data:share"])).exchanged();
    const { body } = await read(developer.acting);
    expect(body).toMatchObject({ permission: "propose", approved_scopes: null, approved_by: null });
    const { body: fewer } = await read(developer.acting, scene.shop, { scope: "data:read" });
    expect(fewer.permission).toBe("read");
    const { proposal } = await propose(developer.acting, ["data:read", "data:share"]);
    await approve(own, proposal, ["data:read", "data:share"]);
    const again = await connect(developer.acting, ["data:read", "data:share"]);
    expect(again.shown.permission).toBe("connect_approved");
    expect((await again.exchanged()).status).toBe(200);
  });

  test("names a new connection, and does not rename an existing one", async () => {
    const named = (acting: Acting, shown_name: string) =>
      connect(acting, ["data:read"], scene.shop, { shown_name });
    const { id, owner, developer } = await approved();
    const code = await named(developer.acting, "Difference Engines");
    expect(code.shown.shown_name).toBeNull();
    await (await named(actingFor(owner, id), "Engines")).exchanged();
    expect((await code.exchanged()).body.org_name).toBe("Engines");
    const again = await named(developer.acting, "Difference Engines");
    expect(again.shown.shown_name).toBe("Engines");
    expect((await again.exchanged()).body.org_name).toBe("Engines");
    expect(await customers(scene.shop).where({ customer_account_id: id })).toMatchObject([
      { customer_name: "Engines" },
    ]);
    expect((await (await named(actingFor(owner, id), "Works")).exchanged()).body.org_name).toBe("Works");
    const other = await approved();
    const first = await named(other.developer.acting, "Difference Engines");
    expect((await first.exchanged()).body.org_name).toBe("Difference Engines");
  });

  test("lets a developer connect without a scope that the platform has given up", async () => {
    const narrowed = await product();
    const { id, owner, developer } = await approved(["data:read"], narrowed);
    await (await connect(actingFor(owner, id), ["data:read", "data:share"], narrowed)).exchanged();
    const path = `/v1/service/platforms/${narrowed.platformId}`;
    const ceiling = { default_allowed_scopes: ["data:read"], scope_descriptions: {} };
    expect((await narrowed.owner.client.call("PATCH", path, { body: ceiling })).status).toBe(200);
    const { exchanged } = await connect(developer.acting, ["data:read"], narrowed);
    expect(seen(await exchanged())).toEqual([200, undefined]);
  });

  test("needs a member who may connect and who read these words and scopes, and works once", async () => {
    const { id, owner, approver, developer, rule } = await organization();
    const { proposal } = await propose(developer.acting);
    const own = actingFor(owner, id);
    expect(seen(await approve(developer.acting, proposal))).toEqual([403, "forbidden"]);
    await rule("owners");
    expect(seen(await approve(approver.acting, proposal))).toEqual([403, "forbidden"]);
    await rule("owners_and_approvers");
    const stranger = await organization();
    for (const acting of [stranger.approver.acting, actingFor(stranger.owner, stranger.id)]) {
      expect(seen(await approve(acting, proposal))).toEqual([404, "not_found"]);
      expect(seen(await acting.delete(`${PROPOSALS}/${proposal.proposal_id}`))).toEqual([404, "not_found"]);
    }
    expect(seen(await approve(own, proposal, ["data:share"]))).toEqual([400, "ceiling_exceeded"]);
    expect(seen(await approve(own, proposal, []))).toEqual([400, "invalid_scopes"]);
    await propose(developer.acting, ["data:share"]);
    expect(seen(await approve(own, proposal, ["data:share"]))).toEqual([400, "invalid_scopes"]);
    const { proposal: changed } = await propose(developer.acting, ["data:read"]);
    const both = await Promise.all([approve(own, changed), approve(approver.acting, changed)]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 404]);
    expect(await stored(id)).toHaveLength(1);
  });

  test("covers neither another platform of the publisher, nor another redirect URI", async () => {
    const one = await product();
    const { developer } = await approved(["data:read"], one);
    expect((await connect(developer.acting)).shown.permission).toBe("propose");
    const second = `${one.redirect}/second`;
    const path = `/v1/service/platforms/${one.platformId}`;
    await one.owner.client.call("PATCH", path, { body: { redirect_uris: [one.redirect, second] } });
    const elsewhere = await connect(developer.acting, ["data:read"], { ...one, redirect: second });
    expect([elsewhere.shown.permission, ...seen(elsewhere.decided)]).toEqual(["propose", 403, "forbidden"]);
    const here = await connect(developer.acting, ["data:read"], one);
    expect(here.shown.permission).toBe("connect_approved");
  });

  test("covers only the account at the product that it was given for", async () => {
    const { developer } = await approved();
    const form = {
      ...parameters(scene.shop, verifierOf()),
      client_secret: scene.shop.secret,
      account_label: "Mallory's",
    };
    const request_uri = String((await post("par", form)).body.request_uri);
    const requestId = requestIdOf(await authorize({ client_id: scene.shop.platformId, request_uri }));
    const { body } = await developer.acting.get(`/v1/service/connect-requests/${requestId}`);
    expect([body.account_label, body.permission]).toEqual(["Mallory's", "propose"]);
  });

  test("has no effect after the product has changed its words for an approved scope", async () => {
    const changing = await product();
    const { developer, approver } = await approved(["data:read", "custom:shop:refund"], changing);
    const words = { label: "Look at orders", description: "Reads them" };
    const body = { scope_descriptions: { "custom:shop:refund": words } };
    await changing.owner.client.call("PATCH", `/v1/service/platforms/${changing.platformId}`, { body });
    const refused = await connect(developer.acting, ["custom:shop:refund"], changing);
    expect([refused.shown.permission, ...seen(refused.decided)]).toEqual(["propose", 403, "forbidden"]);
    expect((await approver.acting.get(PROPOSALS)).body.items).toMatchObject([{ state: "changed" }]);
    expect((await connect(developer.acting, ["data:read"], changing)).decided.status).toBe(200);
  });

  test("ends after 30 days", async () => {
    const { developer } = await approved();
    await later(30 * DAY - 1, developer.person);
    expect((await (await connect(developer.acting)).exchanged()).status).toBe(200);
    const code = await connect(developer.acting);
    api.clock.advance(1);
    await expectEnded(developer.acting, code);
  });

  const endings: Record<string, (team: Awaited<ReturnType<typeof approved>>) => Promise<unknown>> = {
    "when an owner or approver withdraws it": ({ approver, proposal }) =>
      approver.acting.delete(`${PROPOSALS}/${proposal.proposal_id}`),
    "when its approver loses the role": ({ owner, approver }) =>
      owner.client.call("PATCH", `${ORGANIZATION}/members/${approver.person.accountId}`, {
        body: { role: "developer" },
      }),
    "when its approver leaves": ({ approver }) => approver.acting.post(`${ORGANIZATION}/leave`),
    "when the organization leaves connecting to owners": ({ rule }) => rule("owners"),
    "when a member narrows the connection": async ({ developer, owner }) => {
      const { body } = await (await connect(developer.acting, ["data:read"])).exchanged();
      const path = `/v1/service/connected-products/${body.connection_id}`;
      await owner.client.call("PATCH", path, { body: { allowed_scopes: ["data:read"] } });
    },
    "when a member connects again with fewer scopes": async ({ developer, owner, id }) => {
      await (await connect(developer.acting, ["data:read", "custom:shop:refund"])).exchanged();
      const { body } = await (await connect(actingFor(owner, id), ["data:read"])).exchanged();
      expect(body.scope).toBe("data:read");
    },
    "when a member ends the connections with all products": ({ owner }) =>
      owner.client.call("DELETE", "/v1/service/connected-products"),
    "when a member ends the connection": async ({ developer, owner }) => {
      const { body } = await (await connect(developer.acting, ["data:read"])).exchanged();
      await owner.client.call("DELETE", `/v1/service/connected-products/${body.connection_id}`);
    },
  };
  test.each(Object.keys(endings))("ends %s, with its codes", async (title) => {
    const team = await approved();
    const code = await connect(team.developer.acting);
    expect(code.decided.status).toBe(200);
    await endings[title]?.(team);
    await expectEnded(team.developer.acting, code);
  });

  test("does not return when the organization lets approvers connect again", async () => {
    const { developer, rule } = await approved();
    const code = await connect(developer.acting);
    for (const who of ["owners", "owners_and_approvers"]) await rule(who);
    await expectEnded(developer.acting, code);
  });

  test("does not return when its approver gets the role back", async () => {
    const { owner, approver, developer } = await approved();
    const member = `${ORGANIZATION}/members/${approver.person.accountId}`;
    const code = await connect(developer.acting);
    for (const role of ["auditor", "approver"]) {
      await owner.client.call("PATCH", member, { body: { role } });
    }
    await expectEnded(developer.acting, code);
  });

  test.each(["unpublished", "suspended"])("ends when the platform is %s, and stays ended", async (how) => {
    const ending = await product();
    const { id, developer } = await approved(["data:read"], ending);
    const code = await connect(developer.acting, ["data:read"], ending);
    const { client } = ending.owner;
    if (how === "unpublished") await client.post(`/v1/service/platforms/${ending.platformId}/unpublish`);
    else await client.call("DELETE", `${ORGANIZATION}/domains/${ending.domain}`);
    expect(await stored(id)).toEqual([]);
    await api
      .db("platforms")
      .where({ platform_id: ending.platformId })
      .update({ publish_state: "published", published_domain: ending.domain });
    await expectEnded(developer.acting, code, ending);
  });

  test("does not serve a developer who becomes an auditor or leaves before the exchange", async () => {
    const { owner, developer } = await approved();
    const member = `${ORGANIZATION}/members/${developer.person.accountId}`;
    const [first, second] = [await connect(developer.acting), await connect(developer.acting)];
    await owner.client.call("PATCH", member, { body: { role: "auditor" } });
    expect((await first.exchanged()).body.error).toBe("invalid_grant");
    await owner.client.call("DELETE", member);
    expect((await second.exchanged()).body.error).toBe("invalid_grant");
  });

  test("replaces the former one of the same product", async () => {
    const { id, owner, developer } = await approved(["data:read"]);
    const { proposal } = await propose(developer.acting, ["data:share"]);
    expect((await connect(developer.acting)).shown.permission).toBe("connect_approved");
    await approve(actingFor(owner, id), proposal, ["data:share"]);
    expect((await connect(developer.acting)).shown.approved_scopes).toEqual(["data:share"]);
    expect(await stored(id)).toHaveLength(1);
  });
});
