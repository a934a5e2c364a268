import { describe, expect, test } from "vitest";
import {
  type ClaimedMailing,
  deleteIdle,
  noteMail,
  pacedAfter,
  recordMailed,
} from "../../../src/accounts/mailings/queue.ts";
import { addSeconds } from "../../../src/clock.ts";
import { eventually } from "../../events/support/time.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { approve, copyRequest, requested, selfRequest } from "../../support/platform_world.ts";
import { mailedOrganization, mailingApi } from "./mailing_world.ts";

const api = mailingApi();
const DAY = 24 * 3600;

describe("a new request", () => {
  test("reaches everybody who may decide it, and to nobody else", async () => {
    const { owner, approver, developer, auditor, ask } = await mailedOrganization(api);
    const stranger = await api.person();
    const requestId = await ask();
    for (const person of [owner, approver]) {
      const [mail, ...more] = await api.mailsTo(person.email);
      expect(more).toEqual([]);
      expect(mail?.subject).toMatch(
        /^“.*” asks to act for “Webshop” \(\d+ permissions?, until you end it\)$/,
      );
      const link = `https://deputize.example.com/agents/console/for/${owner.accountId}/requests/${requestId}`;
      expect(mail?.text).toContain(`Look at the request: ${link}`);
      expect(mail?.html).toContain(`href="${link}"`);
    }
    for (const person of [developer, auditor, stranger]) expect(await api.mailsTo(person.email)).toEqual([]);
  });

  test("brings no mail to the person who asked if somebody else must decide", async () => {
    const { owner, approver, ask } = await mailedOrganization(api);
    await actingFor(owner, owner.accountId).patch("/v1/service/organization", { four_eyes: true });
    await ask(owner);
    expect(await api.mailsTo(owner.email)).toEqual([]);
    expect(await api.mailsTo(approver.email)).toHaveLength(1);
  });

  test("brings one mail, although the operator declares the object again and again", async () => {
    const { person, platform } = await requested(api);
    await api.mailsTo(person.email);
    const before = await api.db("delegation_requests").where({ connection_id: platform.connectionId });
    const { request_id = "" } = before[0] ?? {};
    await api.db("delegation_requests").where({ request_id }).update({ external_id: "c1.some-object" });
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
  });

  test("brings no mail if it was decided before the mail went out", async () => {
    const restore = api.breakMail();
    const { person, requestId } = await requested(api);
    await api.mailsTo(person.email);
    await approve(person, requestId, ["data:read"]);
    restore();
    api.clock.set(addSeconds(api.clock.now(), 61));
    const subjects = await api.subjectsTo(person.email);
    expect(subjects.filter((subject) => subject.includes("asks to act"))).toEqual([]);
  });

  test("brings no mail to a person who lost the role before the mail went out", async () => {
    const restore = api.breakMail();
    const { owner, approver, ask } = await mailedOrganization(api);
    await ask();
    await api.mailsTo(owner.email);
    await api
      .db("organization_members")
      .where({ account_id: approver.accountId })
      .update({ role: "auditor" });
    restore();
    api.clock.set(addSeconds(api.clock.now(), 61));
    expect(await api.mailsTo(approver.email)).toEqual([]);
    expect(await api.mailsTo(owner.email)).toHaveLength(1);
  });
});

describe("a mail that the server does not accept", () => {
  const waitingFor = async ({ accountId }: { accountId: string }) =>
    (await api.db("mailing_queues").where({ person_id: accountId, kind: "request_waits" }).first())
      ?.request_ids;

  test("remains for three days if the server is away, and then is dropped", async () => {
    const restore = api.breakMail();
    const { person, requestId } = await requested(api);
    await api.mailsTo(person.email);
    for (const hours of [1, 70]) {
      api.clock.set(addSeconds(api.clock.now(), hours * 3600));
      await api.mailsTo(person.email);
      expect(await waitingFor(person)).toEqual([requestId]);
    }
    api.clock.set(addSeconds(api.clock.now(), 3600));
    await api.mailsTo(person.email);
    expect(await waitingFor(person)).toEqual([]);
    restore();
  });

  test("goes no second time if the server refuses the address for good", async () => {
    const restore = api.breakMail({ command: "RCPT TO", responseCode: 550 });
    const { person } = await requested(api);
    await api.mailsTo(person.email);
    expect(await waitingFor(person)).toEqual([]);
    restore();
  });
});

describe("a mail that is being sent", () => {
  test("keeps what another process adds at the same moment for the next mail", async () => {
    const restore = api.breakMail();
    const { person } = await requested(api);
    await api.mailsTo(person.email);
    restore();
    const now = api.clock.now();
    const key = { person_id: person.accountId, kind: "request_waits" } as const;
    const row = await api.db("mailing_queues").where(key).first();
    const claimed = { ...row, choice: "every", email: person.email } as ClaimedMailing;
    const added = await api.db.transaction(async (tx) => {
      await tx("mailing_queues")
        .where(key)
        .update({ request_ids: tx.raw("request_ids || array['added']") as never });
      const settled = recordMailed(api.db, claimed, now);
      await eventually("the other process waits for the row", async () => {
        const { rows } = await api.db.raw("select count(*)::int as n from pg_locks where not granted");
        return rows[0].n > 0;
      });
      return { settled };
    });
    await added.settled;
    expect(await api.db("mailing_queues").where(key).first()).toMatchObject({
      request_ids: ["added"],
      attempts: 0,
    });
  });

  test("keeps its time if the person saves a choice, so that no second process sends it", async () => {
    const restore = api.breakMail();
    const { person } = await requested(api);
    await api.mailsTo(person.email);
    restore();
    const key = { person_id: person.accountId, kind: "request_waits" } as const;
    const before = await api.db("mailing_queues").where(key).first();
    for (const request_waits of ["every", "daily"]) {
      await person.client.call("PATCH", "/v1/service/mails", { body: { request_waits } });
      const after = await api.db("mailing_queues").where(key).first();
      expect(after?.next_attempt_at).toEqual(before?.next_attempt_at);
    }
    api.clock.set(addSeconds(api.clock.now(), 61));
    expect(await api.mailsTo(person.email)).toHaveLength(1);
  });
});

describe("a flood of requests", () => {
  test("delays no mail about another account", async () => {
    const [loud, quiet] = [await mailedOrganization(api, "Loud"), await mailedOrganization(api, "Quiet")];
    const both = await addMember(api, loud.owner.accountId, "approver");
    await addMember(api, quiet.owner.accountId, "approver", both);
    for (let n = 0; n < 3; n += 1) await loud.ask();
    expect(await api.mailsTo(both.email)).toHaveLength(1);
    await loud.ask();
    await quiet.ask();
    const mails = await api.mailsTo(both.email);
    expect(mails.map(({ subject }) => subject.includes("“Quiet”"))).toEqual([false, true]);
  });

  test("becomes one mail for each account, which leads to this account and names no other", async () => {
    const restore = api.breakMail();
    const accounts = [
      await mailedOrganization(api, "First"),
      await mailedOrganization(api, "Second"),
    ] as const;
    const [first, second] = accounts;
    const both = await addMember(api, first.owner.accountId, "approver");
    await addMember(api, second.owner.accountId, "approver", both);
    for (const { ask } of [first, second, first, second]) await ask();
    await api.mailsTo(both.email);
    restore();
    api.clock.set(addSeconds(api.clock.now(), 61));
    const mails = await api.mailsTo(both.email);
    expect(mails).toHaveLength(2);
    for (const [n, name] of ["First", "Second"].entries()) {
      const mail = mails.find(({ subject }) => subject.includes(`“${name}”`));
      const page = `/agents/console/for/${accounts[n]?.owner.accountId}/requests`;
      expect(mail?.subject).toBe(`2 requests to act for “${name}” wait for a decision`);
      expect(mail?.text).toContain(`Look at the requests: https://deputize.example.com${page}\n`);
      expect(mail?.html).not.toContain(name === "First" ? "Second" : "First");
    }
  });

  /** Makes so many requests of a person's own account wait that their mail has no room for all of them. */
  async function flooded(count: number) {
    const { person, requestId } = await requested(api);
    await api.mailsTo(person.email);
    const restore = api.breakMail();
    api.clock.set(addSeconds(api.clock.now(), 60));
    await copyRequest(api.db, requestId, count, { created_at: api.clock.now() });
    const ids = await api
      .db("delegation_requests")
      .where({ account_id: person.accountId })
      .whereNot({ request_id: requestId })
      .orderBy("request_id")
      .pluck("request_id");
    for (const id of ids) await noteMail(api.db as never, "request_waits", id, api.clock.now());
    await api.mailsTo(person.email);
    return { person, ids, restore };
  }

  test("beyond a hundred requests is counted completely, even if requests that the mail lists were decided", async () => {
    const { person, restore } = await flooded(230);
    const queue = () => api.db("mailing_queues").where({ person_id: person.accountId }).first();
    const waiting = await queue();
    expect([waiting?.request_ids.length, waiting?.omitted]).toEqual([100, 130]);
    const listed = waiting?.request_ids ?? [];
    await api
      .db("delegation_requests")
      .whereIn("request_id", [...listed.slice(0, 95), "none"])
      .update({ status: "denied" });
    restore();
    api.clock.set(addSeconds(api.clock.now(), 61));
    const mail = (await api.mailsTo(person.email)).at(-1);
    expect(mail?.subject).toBe("135 requests to act for you wait for a decision");
    expect(mail?.text).toContain("- and 125 more");
    expect(await queue()).toMatchObject({ request_ids: [], omitted: 0, omitted_since: null });
  });

  test("does not lose a request that another process adds beyond the first hundred", async () => {
    const { person, restore } = await flooded(120);
    restore();
    const key = { person_id: person.accountId, kind: "request_waits" } as const;
    const row = await api.db("mailing_queues").where(key).first();
    await api.db("mailing_queues").where(key).increment("omitted", 3);
    const claimed = { ...row, choice: "every", email: person.email } as ClaimedMailing;
    await recordMailed(api.db, claimed, api.clock.now());
    const rest = await api.db("mailing_queues").where(key).first();
    expect(rest).toMatchObject({ request_ids: [], omitted: 3 });
    expect(rest?.due_at).not.toBeNull();
    expect(rest?.omitted_since).toEqual(row?.omitted_since);
  });

  test("becomes few mails, and the last one mentions everything that waited", async () => {
    const { owner, ask } = await mailedOrganization(api);
    await ask();
    expect(await api.mailsTo(owner.email)).toHaveLength(1);
    for (let n = 0; n < 12; n += 1) await ask();
    expect(await api.mailsTo(owner.email)).toHaveLength(1);
    api.clock.set(addSeconds(api.clock.now(), 60));
    const mails = await api.mailsTo(owner.email);
    expect(mails).toHaveLength(2);
    expect(mails[1]?.subject).toBe("12 requests to act for “Webshop” wait for a decision");
    expect(mails[1]?.text).toContain("and 2 more");
  });

  test("reaches a person in at most 14 mails a day", () => {
    let at = new Date(0);
    let mails = 1;
    for (let streak = 1; ; streak += 1) {
      at = pacedAfter({ kind: "request_waits", choice: "every" }, { mailedAt: at, streak });
      if (at.getTime() >= DAY * 1000) break;
      mails += 1;
    }
    expect(mails).toBeLessThanOrEqual(14);
    expect(mails).toBeGreaterThan(10);
  });
});

describe("a decision", () => {
  test("reaches the person who asked, and the approver with a link to end the grant", async () => {
    const { owner, approver, developer, ask } = await mailedOrganization(api);
    const requestId = await ask();
    const path = `/v1/service/delegations/requests/${requestId}/approve`;
    const decided = await actingFor(approver, owner.accountId).post(path, { approved_scope: ["data:read"] });
    expect(decided.status, decided.text).toBe(200);
    const [outcome] = await api.mailsTo(developer.email);
    expect(outcome?.subject).toMatch(/^Your request for “.*” was approved$/);
    expect(outcome?.text).toContain("- Read data");
    const lent = (await api.mailsTo(approver.email)).find(({ subject }) => subject.includes("may now act"));
    const page = `/agents/console/for/${owner.accountId}/delegations/${decided.body.cert_id}`;
    expect(lent?.text).toContain(`Look at it, or end it: https://deputize.example.com${page}`);
    expect(await api.subjectsTo(owner.email)).toEqual([]);
  });

  test("brings no mail about the outcome to a person who decided themselves", async () => {
    const { person, requestId } = await requested(api);
    await approve(person, requestId, ["data:read"]);
    expect(
      (await api.subjectsTo(person.email)).filter((subject) => subject.startsWith("Your request")),
    ).toEqual([]);
  });

  test("to deny is mailed to the person who asked, without a grant", async () => {
    const { owner, developer, ask } = await mailedOrganization(api);
    const requestId = await ask();
    await actingFor(owner, owner.accountId).post(`/v1/service/delegations/requests/${requestId}/deny`, {});
    expect(await api.subjectsTo(developer.email)).toEqual([
      expect.stringMatching(/^Your request for .* was denied$/),
    ]);
    expect((await api.subjectsTo(owner.email)).filter((subject) => subject.includes("may now act"))).toEqual(
      [],
    );
  });
});

test("the upkeep forgets a mail a day after it was sent, and not earlier", async () => {
  const { person } = await requested(api);
  await api.mailsTo(person.email);
  const queues = () => api.db("mailing_queues").where({ person_id: person.accountId }).pluck("kind");
  await deleteIdle(api.db, addSeconds(api.clock.now(), DAY - 1));
  expect(await queues()).toEqual(["request_waits"]);
  await deleteIdle(api.db, addSeconds(api.clock.now(), DAY));
  expect(await queues()).toEqual([]);
});

describe("a person's choice", () => {
  const path = "/v1/service/mails";

  test("starts with every mail until they change it", async () => {
    const person = await api.person();
    const all = {
      request_waits: "every",
      request_lapses: "every",
      request_decided: "every",
      authority_lent: "every",
      product_proposed: "every",
    };
    expect((await person.client.get(path)).body).toEqual(all);
    const changed = await person.client.call("PATCH", path, { body: { authority_lent: "off" } });
    expect(changed.body).toEqual({ ...all, authority_lent: "off" });
    expect((await person.client.get(path)).body).toEqual({ ...all, authority_lent: "off" });
    const wrong = await person.client.call("PATCH", path, { body: { authority_lent: "often" } });
    expect(wrong.status).toBe(400);
  });

  test("stops the mails, also those that wait, until they turn them on again", async () => {
    const restore = api.breakMail();
    const { person, platform } = await requested(api);
    await api.mailsTo(person.email);
    await person.client.call("PATCH", path, { body: { request_waits: "off" } });
    restore();
    await selfRequest(person, platform.connectionId);
    api.clock.set(addSeconds(api.clock.now(), 600));
    await person.client.signIn(person.email);
    expect(await api.subjectsTo(person.email)).toEqual([]);
    await person.client.call("PATCH", path, { body: { request_waits: "every" } });
    await selfRequest(person, platform.connectionId);
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
  });

  test("puts everything of a day into one mail", async () => {
    const { person, platform } = await requested(api);
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
    await person.client.call("PATCH", path, { body: { request_waits: "daily" } });
    await selfRequest(person, platform.connectionId);
    await selfRequest(person, platform.connectionId);
    api.clock.set(addSeconds(api.clock.now(), DAY - 1));
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
    api.clock.set(addSeconds(api.clock.now(), 1));
    expect(await api.subjectsTo(person.email)).toEqual([
      expect.anything(),
      "2 requests to act for you wait for a decision",
    ]);
  });
});

describe("the link that stops mails", () => {
  const stopLink = (headers: Record<string, string> | undefined) =>
    /^<https:\/\/deputize\.example\.com\/agents(\/v1\/service\/mails\/stop\?token=\S+)>$/.exec(
      headers?.["List-Unsubscribe"] ?? "",
    )?.[1] ?? "";

  test("stops one kind of mail with one click and without a session", async () => {
    const { person, platform } = await requested(api);
    const [mail] = await api.mailsTo(person.email);
    expect(mail?.headers?.["List-Unsubscribe-Post"]).toBe("List-Unsubscribe=One-Click");
    const answer = await fetch(`${api.url}${stopLink(mail?.headers)}`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: "List-Unsubscribe=One-Click",
    });
    expect([answer.status, await answer.json()]).toEqual([200, { stopped: "request_waits" }]);
    const choices = (await person.client.get("/v1/service/mails")).body;
    expect(choices).toMatchObject({ request_waits: "off", authority_lent: "every" });
    api.clock.set(addSeconds(api.clock.now(), 600));
    await person.client.signIn(person.email);
    await selfRequest(person, platform.connectionId);
    expect(await api.mailsTo(person.email)).toHaveLength(1);
  });

  test("does not stop another kind, or the mails of somebody else", async () => {
    const { person } = await requested(api);
    const other = await api.person();
    const [mail] = await api.mailsTo(person.email);
    const link = stopLink(mail?.headers);
    const forged = [
      link.replace(person.accountId, other.accountId),
      link.replace("request_waits", "authority_lent"),
      link.slice(0, -1),
      `${link}.x`,
      "/v1/service/mails/stop?token=",
      "/v1/service/mails/stop",
    ];
    for (const path of forged) expect((await api.client().post(path, {})).status, path).toBe(404);
    for (const { client } of [person, other]) {
      const { body } = await client.get("/v1/service/mails");
      expect(body).toMatchObject({ request_waits: "every", authority_lent: "every" });
    }
  });

  test("leads to a page that changes nothing until the person confirms", async () => {
    const { person } = await requested(api);
    const [mail] = await api.mailsTo(person.email);
    const page = /console\/stop-mails\?token=[^\s"]+/.exec(mail?.text ?? "")?.[0] ?? "";
    const shown = await fetch(`${api.url}/${page}`);
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining("Stop these mails")]);
    expect((await person.client.get("/v1/service/mails")).body).toMatchObject({ request_waits: "every" });
    const headers = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" };
    const done = await fetch(`${api.url}/${page}`, { method: "POST", headers, body: "form=stop" });
    expect([done.status, await done.text()]).toEqual([200, expect.stringContaining("Stopped")]);
    expect((await person.client.get("/v1/service/mails")).body).toMatchObject({ request_waits: "off" });
  });
});
