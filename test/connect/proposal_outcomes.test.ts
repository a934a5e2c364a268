import { describe, expect, test } from "vitest";
import { pruneProposals } from "../../src/connect/proposals.ts";
import { mailedOrganization, mailingApi } from "../accounts/mailings/mailing_world.ts";
import type { Person } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { DAY, ORGANIZATION, PROPOSALS, proposalScene, seen } from "./proposal_scene.ts";

const api = mailingApi();
const scene = proposalScene(api);
const { product, organization, propose, approve, later } = scene;

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

  test("reaches no member who decided their own proposal after a promotion", async () => {
    const { owner, developer } = await organization();
    const [first, second] = [
      await propose(developer.acting),
      await propose(developer.acting, ["data:read"], await product()),
    ];
    const promoted = await owner.client.call(
      "PATCH",
      `${ORGANIZATION}/members/${developer.person.accountId}`,
      {
        body: { role: "approver" },
      },
    );
    expect(promoted.status).toBe(200);
    expect((await approve(developer.acting, first.proposal)).status).toBe(200);
    const declined = await developer.acting.delete(`${PROPOSALS}/${second.proposal.proposal_id}`);
    expect(declined.status).toBe(200);
    expect(await api.subjectsTo(developer.person.email)).toEqual([]);
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
