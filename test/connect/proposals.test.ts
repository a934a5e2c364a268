import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { pruneProposals } from "../../src/connect/proposals.ts";
import type { MemberRole } from "../../src/route.ts";
import { mailedOrganization, mailingApi } from "../accounts/mailings/mailing_world.ts";
import type { Person } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { connectScene, type Product } from "./scene.ts";

const api = mailingApi();
const { product, begun, exchange, customers, parameters, verifierOf, post, authorize, requestIdOf } =
  connectScene(api);
const ORGANIZATION = "/v1/service/organization";
const PROPOSALS = "/v1/service/connect-proposals";
const DAY = 24 * 3_600;

let shop: Product;
beforeAll(async () => {
  shop = await product();
});

type Acting = ReturnType<typeof actingFor>;

/** An organization with a member of each role. */
async function organization() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  const id = owner.accountId;
  const joined = async (role: MemberRole) => {
    const person = await addMember(api, id, role);
    return { person, acting: actingFor(person, id) };
  };
  const [approver, developer, auditor] = [
    await joined("approver"),
    await joined("developer"),
    await joined("auditor"),
  ];
  const rule = (connecting: string) => owner.client.call("PATCH", ORGANIZATION, { body: { connecting } });
  return { id, owner, approver, developer, auditor, rule };
}

/** Begins a request at a product, and reads it for an organization. */
async function read(acting: Acting, of = shop, more: Record<string, string> = {}) {
  const { verifier, requestId } = await begun(of, more);
  const path = `/v1/service/connect-requests/${requestId}`;
  const { body } = await acting.get(path);
  const decide = (verb: string, fields: object = {}) =>
    acting.post(`${path}/${verb}`, { scopes: ["data:read"], consent_hash: body.consent_hash, ...fields });
  return { path, verifier, body, decide };
}

async function propose(acting: Acting, scopes = ["data:read", "custom:shop:refund"], of = shop) {
  const answer = await (await read(acting, of)).decide("propose", { scopes });
  if (answer.status !== 200) throw new Error(answer.text);
  const { items } = (await acting.get(PROPOSALS)).body as { items: Shown[] };
  return { answer, proposal: items.find(({ platform }) => platform.platform_id === of.platformId)! };
}

type Shown = { proposal_id: string; consent_hash: string; state: string; platform: { platform_id: string } };

const approve = ({ post: send }: Acting, { proposal_id, consent_hash }: Shown, scopes = ["data:read"]) =>
  send(`${PROPOSALS}/${proposal_id}/approve`, { scopes, consent_hash });

/** Connects as far as the exchange. Returns the answers of the decision and of the exchange. */
async function connect(acting: Acting, scopes = ["data:read"], of = shop, fields: object = {}) {
  const { verifier, body, decide } = await read(acting, of);
  const decided = await decide("approve", { scopes, ...fields });
  const code = URL.parse(String(decided.body.redirect_to))?.searchParams.get("code") ?? "";
  return { shown: body, decided, verifier, code, exchanged: () => exchange(of, { code, verifier }) };
}

/** Lets time pass, after which people sign in again. */
async function later(seconds: number, ...people: Person[]) {
  api.clock.advance(seconds);
  for (const { client, email } of people) await client.signIn(email);
}

const stored = (accountId: string) => api.db("connect_proposals").where({ account_id: accountId });
const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

describe("a proposal", () => {
  test("returns the browser to the product without a connection, and the product learns nothing else", async () => {
    const { id, developer } = await organization();
    const { body, decide } = await read(developer.acting);
    expect(body).toMatchObject({ permission: "propose", approved_scopes: null, approved_by: null });
    const { declines_to } = body;
    const answer = await decide("propose");
    expect([answer.status, answer.body]).toEqual([200, { redirect_to: declines_to }]);
    expect(String(declines_to)).toContain("error=access_denied&state=xyz");
    expect(await customers(shop).where({ customer_account_id: id })).toEqual([]);
    expect(await stored(id)).toMatchObject([
      { platform_id: shop.platformId, proposed_by: developer.person.accountId, scopes: ["data:read"] },
    ]);
  });

  test("serves developers, and approvers whom the organization does not let connect", async () => {
    const { owner, approver, developer, auditor, rule } = await organization();
    const refused = async (acting: Acting) => seen(await (await read(acting)).decide("propose"));
    expect(await refused(actingFor(owner, owner.accountId))).toEqual([403, "forbidden"]);
    expect(await refused(approver.acting)).toEqual([403, "forbidden"]);
    expect(await refused(auditor.acting)).toEqual([403, "forbidden"]);
    expect((await read(auditor.acting)).body.permission).toBe("read");
    await rule("owners");
    expect(await refused(approver.acting)).toEqual([200, undefined]);
    expect(await refused(developer.acting)).toEqual([200, undefined]);
  });

  test("needs the CSRF token, and membership at this moment", async () => {
    const { id, owner, developer } = await organization();
    const { path, decide, body } = await read(developer.acting);
    const { consent_hash } = body;
    const forged = await developer.person.client.post(
      `${path}/propose`,
      { scopes: ["data:read"], consent_hash },
      { headers: { "x-service-account": id }, csrf: false },
    );
    expect(errorCode(forged)).toBe("csrf_failed");
    await owner.client.call("DELETE", `${ORGANIZATION}/members/${developer.person.accountId}`);
    expect(seen(await decide("propose"))).toEqual([404, "not_found"]);
    expect(await stored(id)).toEqual([]);
  });

  test("refuses a draft, the own platform, other words, and more scopes than the product asks for", async () => {
    const { developer } = await organization();
    const draft = await product({ isDraft: true });
    const ofDraft = await read(developer.acting, draft);
    expect(ofDraft.body.permission).toBe("read");
    expect(seen(await ofDraft.decide("propose"))).toEqual([403, "forbidden"]);
    const worker = await addMember(api, shop.owner.accountId, "developer");
    const own = await read(actingFor(worker, shop.owner.accountId));
    expect([own.body.permission, ...seen(await own.decide("propose"))]).toEqual(["read", 403, "forbidden"]);
    const { decide } = await read(developer.acting, shop, { scope: "data:read" });
    expect(seen(await decide("propose", { consent_hash: "other" }))).toEqual([400, "invalid_scopes"]);
    expect(seen(await decide("propose", { scopes: [] }))).toEqual([400, "invalid_scopes"]);
    expect(seen(await decide("propose", { scopes: ["data:share"] }))).toEqual([400, "ceiling_exceeded"]);
  });

  test("replaces the undecided one of the same product, whoever repeats it, and sends one mail only", async () => {
    const { id, owner, approver, developer } = await organization();
    const other = await addMember(api, id, "developer");
    const first = (await propose(developer.acting)).proposal;
    for (const { email } of [owner, approver.person]) await api.mailsTo(email);
    const second = (await propose(actingFor(other, id), ["data:share"])).proposal;
    expect(second).toMatchObject({
      ...{ proposal_id: first.proposal_id, scopes: ["data:share"], proposed_by: other.email },
    });
    await later(2 * DAY, developer.person);
    await propose(developer.acting, ["data:read"]);
    for (const { email } of [owner, approver.person]) {
      const mails = await api.mailsTo(email);
      expect(mails).toHaveLength(1);
      expect(mails[0]?.html).toContain(`/console/for/${id}/proposals/${first.proposal_id}"`);
      for (const part of [mails[0]?.text ?? "", mails[0]?.html ?? ""]) {
        for (const word of ["Shop", "Shop Works", "Read"]) expect(part).toContain(word);
        expect(part.replaceAll(/\u2060|<[^>]*>/g, "")).toContain(shop.domain);
        expect(part.replaceAll(/\u2060|<[^>]*>/g, "")).toContain(developer.person.email);
      }
    }
    expect(await api.mailsTo(developer.person.email)).toEqual([]);
  });

  test("sends mail to owners only if they alone connect, and none after the decision", async () => {
    const { owner, approver, developer, rule } = await organization();
    await rule("owners");
    await propose(developer.acting);
    expect(await api.subjectsTo(approver.person.email)).toEqual([]);
    expect(await api.subjectsTo(owner.email)).toEqual([
      expect.stringMatching(/proposes to connect “Shop” to “Analytical Engines”$/),
    ]);
    await later(DAY, owner, developer.person);
    const other = await product();
    const { proposal } = await propose(developer.acting, ["data:read"], other);
    await owner.client.call("DELETE", `${PROPOSALS}/${proposal.proposal_id}`);
    expect(await api.subjectsTo(owner.email)).toHaveLength(1);
  });

  test("stops at ten undecided proposals of a member and fifty of an organization", async () => {
    const { id, developer } = await organization();
    const many = (count: number, person: string) =>
      api.db.raw(
        `with copied as (
           insert into platforms select (jsonb_populate_record(p, jsonb_build_object('platform_id', gen_random_uuid()))).*
           from platforms p, generate_series(1, :count) where platform_id = :platform returning platform_id)
         insert into connect_proposals (proposal_id, account_id, platform_id, proposed_by, scopes, redirect_uri, created_at, expires_at)
         select gen_random_uuid(), :id, platform_id, :person, '{data:read}', '', :now, :until from copied`,
        {
          id,
          person,
          count,
          platform: shop.platformId,
          now: api.clock.now(),
          until: addSeconds(api.clock.now(), DAY),
        },
      );
    const attempt = async () => seen(await (await read(developer.acting)).decide("propose"));
    const own = developer.person.accountId;
    await many(10, own);
    expect(await attempt()).toEqual([409, "request_limit"]);
    await stored(id).delete();
    await many(9, own);
    await many(41, randomUUID());
    expect(await attempt()).toEqual([409, "request_limit"]);
    await stored(id).delete();
    await many(9, own);
    await many(40, randomUUID());
    expect(await attempt()).toEqual([200, undefined]);
  });

  test("lapses after seven days, and can be made again", async () => {
    const { id, developer, approver } = await organization();
    const { proposal } = await propose(developer.acting);
    await later(7 * DAY, approver.person, developer.person);
    expect(seen(await approve(approver.acting, proposal))).toEqual([404, "not_found"]);
    expect((await approver.acting.get(PROPOSALS)).body.items).toEqual([]);
    const again = (await propose(developer.acting)).proposal;
    expect(again.proposal_id).not.toBe(proposal.proposal_id);
    api.clock.advance(7 * DAY);
    await pruneProposals({ db: api.db, now: api.clock.now() });
    api.clock.advance(4 * DAY);
    await pruneProposals({ db: api.db, now: api.clock.now() });
    expect(await stored(id)).toEqual([]);
  });

  test("ends when the member leaves", async () => {
    const { id, owner, developer } = await organization();
    await propose(developer.acting);
    await owner.client.call("DELETE", `${ORGANIZATION}/members/${developer.person.accountId}`);
    expect(await stored(id)).toEqual([]);
  });
});

const TITLE = "Your proposal to connect “Shop” to “Analytical Engines”";

describe("the mail about the outcome of a proposal", () => {
  test("tells the member who proposed last, and nobody else, that it was approved", async () => {
    const { id, owner, approver, developer } = await organization();
    const first = await addMember(api, id, "developer");
    await propose(actingFor(first, id));
    const { proposal } = await propose(developer.acting);
    await approve(approver.acting, proposal, ["data:read"]);
    const [mail, ...others] = await api.mailsTo(developer.person.email);
    expect([mail?.subject, others]).toEqual([`${TITLE} was approved`, []]);
    expect(mail?.html).toContain(`/console/for/${id}/proposals/${proposal.proposal_id}"`);
    for (const part of [mail?.text ?? "", mail?.html ?? ""]) {
      const words = part.replaceAll(/\u2060|<[^>]*>/g, "");
      expect(words).toContain(`“${approver.person.email}” approved it.`);
      expect(words).toContain("The approval ends on");
      expect(words).not.toContain("Refund an order");
    }
    for (const { email } of [owner, approver.person, first]) {
      expect((await api.subjectsTo(email)).filter((subject) => subject.startsWith("Your"))).toEqual([]);
    }
  });

  test("says once that it was declined, or that it lapsed", async () => {
    const { owner, approver, developer } = await organization();
    const { proposal } = await propose(developer.acting);
    await approver.acting.delete(`${PROPOSALS}/${proposal.proposal_id}`);
    expect(seen(await approver.acting.delete(`${PROPOSALS}/${proposal.proposal_id}`))).toEqual([
      404,
      "not_found",
    ]);
    expect(seen(await approve(approver.acting, proposal))).toEqual([404, "not_found"]);
    expect(await api.subjectsTo(developer.person.email)).toEqual([`${TITLE} was declined`]);
    await later(DAY, developer.person);
    await propose(developer.acting);
    await later(7 * DAY, developer.person, owner);
    for (let times = 0; times < 2; times += 1) {
      await pruneProposals({ db: api.db, now: api.clock.now() });
      expect(await api.subjectsTo(developer.person.email)).toEqual([
        `${TITLE} was declined`,
        `${TITLE} lapsed`,
      ]);
    }
  });

  test("collects several outcomes, and follows the member's choice of mails", async () => {
    const { approver, developer } = await organization();
    const choose = (request_decided: string) =>
      developer.person.client.call("PATCH", "/v1/service/mails", { body: { request_decided } });
    const restore = api.breakMail();
    const { proposal } = await propose(developer.acting);
    const other = (await propose(developer.acting, ["data:read"], await product())).proposal;
    await approve(approver.acting, proposal);
    await approver.acting.delete(`${PROPOSALS}/${other.proposal_id}`);
    expect(await api.subjectsTo(developer.person.email)).toEqual([]);
    restore();
    await later(3_600, developer.person, approver.person);
    const [mail] = await api.mailsTo(developer.person.email);
    expect(mail?.subject).toBe(
      "2 of your proposals to connect products to “Analytical Engines” were decided",
    );
    expect(mail?.text).toContain("- “Shop”: approved\n- “Shop”: declined");
    await choose("off");
    await approver.acting.delete(`${PROPOSALS}/${(await propose(developer.acting)).proposal.proposal_id}`);
    await later(3_600, developer.person);
    expect(await api.subjectsTo(developer.person.email)).toHaveLength(1);
  });

  test("follows after a mail about requests that waited with it", async () => {
    const { owner, approver, developer, ask } = await mailedOrganization(api, "Analytical Engines");
    const acting = (person: Person) => actingFor(person, owner.accountId);
    const restore = api.breakMail();
    const requestId = await ask(developer);
    const denied = await acting(approver).post(`/v1/service/delegations/requests/${requestId}/deny`);
    expect(denied.status).toBe(200);
    await approve(acting(approver), (await propose(acting(developer))).proposal);
    expect(await api.subjectsTo(developer.email)).toEqual([]);
    restore();
    await later(3_600, developer);
    expect(await api.subjectsTo(developer.email)).toEqual([
      expect.stringMatching(/^Your request .* denied$/),
    ]);
    await later(3_600, developer);
    expect(await api.subjectsTo(developer.email)).toEqual([
      expect.stringMatching(/^Your request .* denied$/),
      `${TITLE} was approved`,
    ]);
  });

  test("reaches nobody who left, or whose approval has ended meanwhile", async () => {
    const { owner, approver, developer } = await organization();
    const restore = api.breakMail();
    const { proposal } = await propose(developer.acting);
    await approve(approver.acting, proposal);
    await api.subjectsTo(developer.person.email);
    await approver.acting.delete(`${PROPOSALS}/${proposal.proposal_id}`);
    const again = (await propose(developer.acting)).proposal;
    await approver.acting.delete(`${PROPOSALS}/${again.proposal_id}`);
    await owner.client.call("DELETE", `${ORGANIZATION}/members/${developer.person.accountId}`);
    restore();
    await later(3_600, developer.person);
    expect(await api.subjectsTo(developer.person.email)).toEqual([]);
  });
});

/** An organization with an approval of the shop, and the approval. */
async function approved(scopes = ["data:read", "custom:shop:refund"], of = shop) {
  const team = await organization();
  const { proposal } = await propose(team.developer.acting, scopes, of);
  const answer = await approve(team.approver.acting, proposal, scopes);
  if (answer.status !== 200) throw new Error(answer.text);
  return { ...team, proposal, answer };
}

/** Expects that a developer cannot connect any longer, neither from now on nor with a code. */
async function expectEnded(acting: Acting, code: { exchanged(): Promise<HttpAnswer> }, of = shop) {
  const { shown, decided } = await connect(acting, ["data:read"], of);
  expect([shown.permission, ...seen(decided)]).toEqual(["propose", 403, "forbidden"]);
  expect((await code.exchanged()).body.error).toBe("invalid_grant");
}

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
        ...{ published_domain: shop.domain, scopes: ["data:read", "custom:shop:refund"] },
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
    const { body: fewer } = await read(developer.acting, shop, { scope: "data:read" });
    expect(fewer.permission).toBe("read");
    const { proposal } = await propose(developer.acting, ["data:read", "data:share"]);
    await approve(own, proposal, ["data:read", "data:share"]);
    const again = await connect(developer.acting, ["data:read", "data:share"]);
    expect(again.shown.permission).toBe("connect_approved");
    expect((await again.exchanged()).status).toBe(200);
  });

  test("names a new connection, and does not rename an existing one", async () => {
    const named = (acting: Acting, shown_name: string) =>
      connect(acting, ["data:read"], shop, { shown_name });
    const { id, owner, developer } = await approved();
    const code = await named(developer.acting, "Difference Engines");
    expect(code.shown.shown_name).toBeNull();
    await (await named(actingFor(owner, id), "Engines")).exchanged();
    expect((await code.exchanged()).body.org_name).toBe("Engines");
    const again = await named(developer.acting, "Difference Engines");
    expect(again.shown.shown_name).toBe("Engines");
    expect((await again.exchanged()).body.org_name).toBe("Engines");
    expect(await customers(shop).where({ customer_account_id: id })).toMatchObject([
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
      ...parameters(shop, verifierOf()),
      client_secret: shop.secret,
      account_label: "Mallory's",
    };
    const request_uri = String((await post("par", form)).body.request_uri);
    const requestId = requestIdOf(await authorize({ client_id: shop.platformId, request_uri }));
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

test("the activity list shows who proposed, approved and ended a product", async () => {
  const { owner, approver, proposal } = await approved();
  await approver.acting.delete(`${PROPOSALS}/${proposal.proposal_id}`);
  const { items } = (await owner.client.get(`${ORGANIZATION}/activity`)).body;
  const target = { proposal_id: proposal.proposal_id, platform_name: "Shop" };
  expect(items).toMatchObject([
    { operation: "end_connect_proposal", target },
    { operation: "approve_connect_proposal", target },
    { operation: "propose_connect_request", target },
  ]);
});
