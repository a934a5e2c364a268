import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { invitationMail, sweepInvitations } from "../../src/organizations/invite.ts";
import { wholeApi } from "../http/walk/world.ts";
import type { Person } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { mailerTo, type SmtpReceiver, startSmtp } from "../support/smtp.ts";

let smtp: SmtpReceiver | undefined;
const api = wholeApi({
  organizationRates: undefined,
  mailer: (mailbox) => ({
    ...mailbox,
    async send(mail) {
      if (smtp !== undefined) await mailerTo(smtp).send(mail);
      await mailbox.send(mail);
    },
  }),
});
afterEach(async () => {
  await smtp?.stop();
  smtp = undefined;
});
const MEMBERS = "/v1/service/organization/members";
const INVITATIONS = "/v1/service/organization/invitations";
const WEEK = 7 * 24 * 60 * 60;

const organization = () => api.person({ organization_name: "Analytical Engines" });
const invite = (owner: Person, email: string, role = "approver") =>
  owner.client.post(MEMBERS, { email, role });
const accept = ({ client }: Person, token: string) => client.post(`${INVITATIONS}/accept`, { token });

async function mailsTo(email: string): Promise<string[]> {
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string; subject: string }[];
  return mails
    .filter(({ to, subject }) => to === email && subject.includes("nvitation"))
    .map(({ text }) => text);
}

async function tokenTo(email: string): Promise<string> {
  return /\b[0-9a-f]{64}\b/.exec((await mailsTo(email))[0] ?? "")?.[0] ?? "";
}

async function invited(role = "approver") {
  const [owner, person] = [await organization(), await api.person()];
  const { body } = await invite(owner, person.email, role);
  return { owner, person, invitationId: String(body.invitation_id), token: await tokenTo(person.email) };
}

describe("an invitation", () => {
  test("makes the person with the invited address a member, with the invitation's role", async () => {
    const { owner, person, token } = await invited("developer");
    const answer = await accept(person, ` ${token} `);
    expect([answer.status, answer.body]).toEqual([200, { account_id: owner.accountId, role: "developer" }]);
    const { body } = await actingFor(person, owner.accountId).get(MEMBERS);
    expect(body.members).toMatchObject([
      { email: owner.email, role: "owner" },
      { email: person.email, role: "developer", account_id: person.accountId },
    ]);
    const { body: activity } = await owner.client.get("/v1/service/organization/activity");
    expect(activity.items).toMatchObject([
      { operation: "accept_invitation", actor: { email: person.email }, status: "done" },
      { operation: "invite_organization_member", target: { email: person.email, role: "developer" } },
    ]);
  });

  test("can be accepted only once", async () => {
    const { person, token, owner } = await invited();
    const answers = await Promise.all([1, 2, 3].map(() => accept(person, token)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
    await owner.client.call("DELETE", `${MEMBERS}/${person.accountId}`);
    expect(errorCode(await accept(person, token))).toBe("invalid_invitation");
  });

  test("cannot be accepted by any other account, and stays valid for the account of its address", async () => {
    const { owner, person, token } = await invited();
    for (const other of [await api.person(), await organization(), owner]) {
      expect(errorCode(await accept(other, token))).toBe("invalid_invitation");
    }
    expect(errorCode(await accept(person, `${token}0`))).toBe("invalid_invitation");
    expect((await accept(person, token)).status).toBe(200);
  });

  test("belongs to the one account of its address, in any spelling", async () => {
    const [owner, person] = [await organization(), await api.person()];
    await invite(owner, person.email.toUpperCase());
    expect((await accept(person, await tokenTo(person.email))).status).toBe(200);
  });

  test("can be read before acceptance by the account of its address, and by no other account", async () => {
    const { owner, person, token } = await invited("developer");
    const read = ({ client }: Person, sent = token) =>
      client.post(`${INVITATIONS}/read`, { token: ` ${sent} ` });
    for (let n = 0; n < 2; n++) {
      expect((await read(person)).body).toEqual({
        ...{ organization_name: "Analytical Engines", role: "developer", invited_by: owner.email },
        expires_at: expect.any(String),
      });
    }
    for (const other of [await api.person(), owner]) {
      expect(errorCode(await read(other))).toBe("invalid_invitation");
    }
    expect(errorCode(await read(person, `${token}0`))).toBe("invalid_invitation");
    api.clock.advance(WEEK);
    await person.client.signIn(person.email);
    expect(errorCode(await read(person))).toBe("invalid_invitation");
  });

  test("arrives by email with a link whose code no server sees", async () => {
    const { person, token } = await invited();
    expect((await mailsTo(person.email))[0]).toContain(
      `\nhttp://127.0.0.1/console/invitations/accept#code=${token}\n`,
    );
  });

  test("can be accepted by an account that is opened later", async () => {
    const owner = await organization();
    const email = `${randomUUID()}@example.test`;
    const { body } = await invite(owner, email);
    const token = await tokenTo(email);
    const client = api.client();
    const { account_id, human_id } = await client.onboard(email);
    const person = { client, email, accountId: account_id, humanId: human_id };
    expect(body).toMatchObject({ email, invited_by: owner.email });
    expect((await accept(person, token)).status).toBe(200);
  });

  test("gets the same answer for known and unknown addresses, and the answer never contains the code", async () => {
    const owner = await organization();
    const known = await invite(owner, (await api.person()).email);
    const unknown = await invite(owner, `${randomUUID()}@example.test`);
    expect(Object.keys(known.body)).toEqual(Object.keys(unknown.body));
    expect([known.status, unknown.status]).toEqual([201, 201]);
    const token = await tokenTo(String(known.body.email));
    for (const { text } of [known, await owner.client.get(INVITATIONS)]) expect(text).not.toContain(token);
    const { rows } = await api.db.raw("select i::text as row from organization_invitations i");
    expect(JSON.stringify(rows)).not.toContain(token);
  });

  test("expires after exactly 7 days, and is then deleted", async () => {
    const { person, token } = await invited();
    const another = await invited();
    api.clock.advance(WEEK - 0.001);
    await another.person.client.signIn(another.person.email);
    expect((await accept(another.person, another.token)).status).toBe(200);
    api.clock.advance(0.001);
    await person.client.signIn(person.email);
    expect(errorCode(await accept(person, token))).toBe("invalid_invitation");
    await sweepInvitations(api);
    expect(await api.db("organization_invitations").where({ email: person.email })).toEqual([]);
  });

  test("can be withdrawn by an owner of the organization, and by no other organization", async () => {
    const { owner, person, token, invitationId } = await invited();
    const path = `${INVITATIONS}/${invitationId}`;
    expect(errorCode(await (await organization()).client.call("DELETE", path))).toBe("not_found");
    expect((await owner.client.call("DELETE", path)).body).toMatchObject({ withdrawn: true });
    expect((await owner.client.get(INVITATIONS)).body.invitations).toEqual([]);
    expect(errorCode(await accept(person, token))).toBe("invalid_invitation");
  });

  test("replaces an earlier invitation of the same address, with its role and code", async () => {
    const { owner, person, token } = await invited("owner");
    await invite(owner, person.email, "auditor");
    expect(errorCode(await accept(person, token))).toBe("invalid_invitation");
    expect((await accept(person, await tokenTo(person.email))).body.role).toBe("auditor");
    expect(errorCode(await invite(owner, person.email, "owner"))).toBe("already_member");
  });

  test("becomes invalid when its sender is no longer an owner", async () => {
    const owner = await organization();
    const leaving = await addMember(api, owner.accountId, "owner");
    const person = await api.person();
    const wish = { email: person.email, role: "owner" };
    await actingFor(leaving, owner.accountId).post(MEMBERS, wish);
    await owner.client.call("PATCH", `${MEMBERS}/${leaving.accountId}`, { body: { role: "auditor" } });
    expect(errorCode(await accept(person, await tokenTo(person.email)))).toBe("invalid_invitation");
  });

  test("can make the person who opened the organization's account a member again after leaving", async () => {
    const owner = await organization();
    const heir = await addMember(api, owner.accountId, "owner");
    await owner.client.post("/v1/service/organization/leave");
    const wish = { email: owner.email, role: "auditor" };
    await actingFor(heir, owner.accountId).post(MEMBERS, wish);
    expect((await accept(owner, await tokenTo(owner.email))).status).toBe(200);
    expect((await owner.client.get(MEMBERS)).body.members).toHaveLength(2);
    expect((await owner.client.get("/v1/service/organization")).body.role).toBe("auditor");
  });
});

describe("invitation emails", () => {
  test("have a limit of 3 a day from one organization to one address, and 10 from all organizations", async () => {
    await api.db("rate_limits").delete();
    const email = `${randomUUID()}@example.test`;
    const [first, honest, ...others] = await Promise.all([1, 2, 3, 4, 5].map(organization));
    if (first === undefined || honest === undefined) throw new Error("no organizations");
    const statusesOf = async (owner: Person, times: number) => {
      const statuses = [];
      for (let n = 0; n < times; n++) statuses.push((await invite(owner, email)).status);
      return statuses;
    };
    expect(await statusesOf(first, 4)).toEqual([201, 201, 201, 429]);
    expect(await statusesOf(honest, 1)).toEqual([201]);
    expect(await Promise.all(others.map((other) => statusesOf(other, 2)))).toEqual(Array(3).fill([201, 201]));
    const [fromFirst, fromOther] = [await invite(first, email), await invite(await organization(), email)];
    expect([fromFirst.status, fromOther.status]).toEqual([429, 429]);
    expect(await mailsTo(email)).toHaveLength(10);
    expect(fromFirst.body.error).toMatchObject({
      message: "This address can receive no further invitations today; try again in 24 h",
    });
    expect(fromOther.body).toEqual(fromFirst.body);
    expect(fromOther.headers.get("retry-after")).toMatch(/^[0-9]+$/);
  });

  test("do not count toward the limits if an outage stopped them or the invitation was refused", async () => {
    await api.db("rate_limits").delete();
    const [owner, email] = [await organization(), `${randomUUID()}@example.test`];
    const counts = async () => (await api.db("rate_limits").where("key", "like", "invite%")).map(points);
    const points = ({ points }: { points: number }) => points;
    smtp = await startSmtp();
    smtp.behave("refuse");
    const tries = await Promise.all(Array.from({ length: 8 }, () => invite(owner, email)));
    expect(tries.map(({ status }) => status)).toEqual(expect.arrayContaining([503]));
    expect(await counts()).toEqual([0, 0, 0, 0]);
    smtp.behave("take");
    for (let n = 0; n < 3; n++) expect((await invite(owner, email)).status).toBe(201);
    expect((await invite(owner, email)).status).toBe(429);
    expect(await counts()).toEqual([3, 3, 3, 3]);
  });

  test("count toward the limits if the mail server refuses them permanently, so that nobody can probe addresses", async () => {
    await api.db("rate_limits").delete();
    const [owner, email] = [await organization(), `${randomUUID()}@example.test`];
    smtp = await startSmtp();
    smtp.behave("reject");
    const statuses = [];
    for (let n = 0; n < 4; n++) statuses.push((await invite(owner, email)).status);
    expect(statuses).toEqual([503, 503, 503, 429]);
  });

  test("have a limit of 30 a day for an organization", async () => {
    await api.db("rate_limits").delete();
    const owner = await organization();
    const statuses = [];
    for (let n = 0; n < 31; n++) statuses.push((await invite(owner, `${randomUUID()}@example.test`)).status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(30);
    expect(statuses[30]).toBe(429);
  });

  test("have a limit of 60 a day for a network, with any number of organizations", async () => {
    await api.db("rate_limits").delete();
    const owners = await Promise.all([organization(), organization(), organization()]);
    const statuses = [];
    for (let n = 0; n < 61; n++) {
      const owner = owners[n % 3] as Person;
      statuses.push((await invite(owner, `${randomUUID()}@example.test`)).status);
    }
    expect(statuses.filter((status) => status === 201)).toHaveLength(60);
    expect(statuses[60]).toBe(429);
    await api.db("rate_limits").delete();
  });

  test.each([
    ["Analytical Engines", true],
    ["Engines & Söhne (Wien) Inc.", true],
    ["Verify at https://evil.example", false],
    ["evil.example says hello", false],
    ["call a@b", false],
    ["www evil example", false],
    ["Engines: Wien / Graz 株式会社ジョン・スミス €", true],
    ...[..."。．｡․﹒۔։"].map((dot): [string, boolean] => [`evil${dot}example`, false]),
    ["evil．example", false],
    ["ｗｗｗ evil example", false],
    ["https：／／evil", false],
    ["a＠b", false],
    ["evil⁄example∕x", false],
    ["evil.\ufeffexample", false],
    ["w\u200bww evil", false],
    ["x".repeat(81), false],
  ])(
    "contain the organization's name only if it cannot become a link: %s (%s)",
    (organizationName, isShown) => {
      const { text } = invitationMail({
        ...{ to: "b@example.test", by: "a@example.test", role: "auditor", token: "t" },
        ...{
          organizationName,
          baseUrl: "https://api.example.com",
          acceptUrl: "https://api.example.com/accept",
        },
      });
      expect(text.includes(organizationName)).toBe(isShown);
    },
  );
});
