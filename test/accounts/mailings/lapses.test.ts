import { describe, expect, test } from "vitest";
import { noteLapses, noteReminders } from "../../../src/accounts/mailings/queue.ts";
import { addSeconds } from "../../../src/clock.ts";
import { actingFor } from "../../support/members.ts";
import { approve, copyRequest, requested } from "../../support/platform_world.ts";
import { mailedOrganization, mailingApi } from "./mailing_world.ts";

const api = mailingApi();
const DAY = 24 * 3600;

describe("a request that nobody decides", () => {
  test("brings one more mail, a day before it lapses", async () => {
    const { person, requestId } = await requested(api);
    const row = await api.db("delegation_requests").where({ request_id: requestId }).first();
    const lapses = row?.expires_at ?? new Date(0);
    await noteReminders(api.db, addSeconds(lapses, -DAY - 1));
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
    api.clock.set(addSeconds(lapses, -DAY));
    await Promise.all([noteReminders(api.db, api.clock.now()), noteReminders(api.db, api.clock.now())]);
    await noteReminders(api.db, addSeconds(api.clock.now(), 60));
    const subjects = await api.subjectsTo(person.email);
    expect(subjects.filter((subject) => subject.startsWith("Still undecided:"))).toHaveLength(1);
  });
});

describe("a request that lapses", () => {
  const path = "/v1/service/mails";
  const lapseOf = async (request_id: string) =>
    (await api.db("delegation_requests").where({ request_id }).first())?.expires_at ?? new Date(0);

  test("brings a mail to the person who asked, and to others who could have decided", async () => {
    const { owner, approver, developer, auditor, ask } = await mailedOrganization(api);
    await approver.client.call("PATCH", path, { body: { request_lapses: "off" } });
    const requestId = await ask();
    const page = `console/for/${owner.accountId}/requests/${requestId}`;
    api.clock.set(addSeconds(await lapseOf(requestId), 1));
    await Promise.all([noteLapses(api.db, api.clock.now()), noteLapses(api.db, api.clock.now())]);
    await noteLapses(api.db, addSeconds(api.clock.now(), 60));
    const mails = await api.mailsTo(developer.email);
    expect(mails.map(({ subject }) => subject)).toEqual([
      expect.stringMatching(/^Your request for “.*” lapsed$/),
    ]);
    expect(mails[0]?.text).toContain(`Look at the request: https://deputize.example.com/agents/${page}`);
    expect(mails[0]?.text).toMatch(/Nobody decided by .*\. The agent did not get anything\./);
    const isLapse = (subject: string) => subject.endsWith("to act for “Webshop” lapsed");
    expect((await api.subjectsTo(owner.email)).filter(isLapse)).toHaveLength(1);
    for (const { email } of [approver, auditor]) {
      expect((await api.subjectsTo(email)).filter(isLapse)).toEqual([]);
    }
  });

  test.each(["before", "after"])(
    "brings each mail only once, even if somebody looks at the request %s the service notes the lapse",
    async (order) => {
      const { owner, developer, ask } = await mailedOrganization(api);
      const requestId = await ask();
      const expires_at = addSeconds(api.clock.now(), -1);
      await api.db("delegation_requests").where({ request_id: requestId }).update({ expires_at });
      const look = async () => {
        const page = `/v1/service/delegations/requests/${requestId}`;
        expect((await actingFor(owner, owner.accountId).get(page)).body.status).toBe("expired");
      };
      if (order === "before") await look();
      await noteLapses(api.db, api.clock.now());
      await look();
      await noteLapses(api.db, addSeconds(api.clock.now(), 60));
      for (const { email } of [owner, developer]) {
        expect((await api.subjectsTo(email)).filter((subject) => subject.endsWith("lapsed"))).toHaveLength(1);
      }
    },
  );

  test("brings one mail to a person who asked and could have decided", async () => {
    const { person, requestId } = await requested(api);
    api.clock.set(addSeconds(await lapseOf(requestId), 1));
    await noteLapses(api.db, api.clock.now());
    expect((await api.subjectsTo(person.email)).filter((subject) => subject.includes("lapsed"))).toEqual([
      expect.stringMatching(/^Your request for “.*” lapsed$/),
    ]);
  });

  test("brings no mail if somebody decided it, or if it lapsed more than three days ago", async () => {
    const decided = await requested(api);
    const old = await requested(api);
    await approve(decided.person, decided.requestId, ["data:read"]);
    const looked = await requested(api);
    const ids = [old.requestId, looked.requestId, decided.requestId];
    const lapsed = addSeconds(api.clock.now(), -3 * DAY);
    await api.db("delegation_requests").whereIn("request_id", ids).update({ expires_at: lapsed });
    await looked.person.client.get("/v1/service/delegations/requests");
    await noteLapses(api.db, api.clock.now());
    for (const { person } of [decided, old, looked]) {
      expect((await api.subjectsTo(person.email)).filter((subject) => subject.includes("lapsed"))).toEqual(
        [],
      );
    }
  });

  test("shares a mail with those that lapse soon", async () => {
    const { owner, ask } = await mailedOrganization(api);
    const restore = api.breakMail();
    const requestId = await ask();
    const lapsing = await lapseOf(requestId);
    await copyRequest(api.db, requestId, 1, { expires_at: addSeconds(lapsing, 3600) });
    api.clock.set(addSeconds(lapsing, 1));
    await noteReminders(api.db, api.clock.now());
    await noteLapses(api.db, api.clock.now());
    await api.mailsTo(owner.email);
    restore();
    api.clock.set(addSeconds(api.clock.now(), 61));
    const mails = await api.mailsTo(owner.email);
    const mail = mails.find(({ subject }) => subject.includes("lapse soon or have lapsed"));
    expect(mail?.subject).toBe("2 requests to act for “Webshop” lapse soon or have lapsed");
    expect(mail?.text).toMatch(/- .*: lapses on .*\n- .*: lapsed\n/);
  });

  test("brings a reminder before the lapse also to a person who wants at most one mail a day", async () => {
    const { person, requestId } = await requested(api);
    await person.client.call("PATCH", path, { body: { request_lapses: "daily" } });
    const first = await lapseOf(requestId);
    const second = addSeconds(first, 3600);
    await copyRequest(api.db, requestId, 1, { expires_at: second });
    for (const now of [addSeconds(first, -DAY), addSeconds(second, -DAY + 1800)]) {
      api.clock.set(now);
      await noteReminders(api.db, now);
      await api.mailsTo(person.email);
    }
    api.clock.set(addSeconds(second, -3600));
    const reminders = (await api.subjectsTo(person.email)).filter((subject) =>
      subject.startsWith("Still undecided:"),
    );
    expect(reminders).toHaveLength(2);
  });

  test("brings no reminder after the lapse", async () => {
    const { person, requestId } = await requested(api);
    await api.mailsTo(person.email);
    const restore = api.breakMail();
    api.clock.set(addSeconds(await lapseOf(requestId), -60));
    await noteReminders(api.db, api.clock.now());
    await api.mailsTo(person.email);
    restore();
    api.clock.set(addSeconds(await lapseOf(requestId), 60));
    expect(await api.subjectsTo(person.email)).toHaveLength(1);
  });
});
