import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { pruneProposals } from "../../src/connect/proposals.ts";
import { mailingApi } from "../accounts/mailings/mailing_world.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { type Acting, DAY, ORGANIZATION, PROPOSALS, proposalScene, seen } from "./proposal_scene.ts";

const api = mailingApi();
const scene = proposalScene(api);
const { product, customers, organization, read, propose, approve, later, stored, approved } = scene;

describe("a proposal", () => {
  test("returns the browser to the product without a connection, and the product learns nothing else", async () => {
    const { id, developer } = await organization();
    const { body, decide } = await read(developer.acting);
    expect(body).toMatchObject({ permission: "propose", approved_scopes: null, approved_by: null });
    const { declines_to } = body;
    const answer = await decide("propose");
    expect([answer.status, answer.body]).toEqual([200, { redirect_to: declines_to }]);
    expect(String(declines_to)).toContain("error=access_denied&state=xyz");
    expect(await customers(scene.shop).where({ customer_account_id: id })).toEqual([]);
    expect(await stored(id)).toMatchObject([
      { platform_id: scene.shop.platformId, proposed_by: developer.person.accountId, scopes: ["data:read"] },
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
    const worker = await addMember(api, scene.shop.owner.accountId, "developer");
    const own = await read(actingFor(worker, scene.shop.owner.accountId));
    expect([own.body.permission, ...seen(await own.decide("propose"))]).toEqual(["read", 403, "forbidden"]);
    const { decide } = await read(developer.acting, scene.shop, { scope: "data:read" });
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
        expect(part.replaceAll(/\u2060|<[^>]*>/g, "")).toContain(scene.shop.domain);
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
          platform: scene.shop.platformId,
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
