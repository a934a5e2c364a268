import { beforeEach, describe, expect, test, vi } from "vitest";
import { linkContent } from "../../src/accounts/notices/links.ts";
import { ANN, type DeclaredScene, decidedScene } from "../locks/declared_scene.ts";
import type { Person } from "../support/api.ts";
import { runningApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";

const PATH = "/v1/service/cluster-approvers";
const MEMBERS = "/v1/service/organization/members";
const api = runningApi();

let opener: Person;
let id: string;
beforeEach(async () => {
  opener = await api.person({ organization_name: "Analytical Engines" });
  id = opener.accountId;
});
const must = async (call: Promise<{ status: number; text: string }>) => {
  const answer = await call;
  if (answer.status >= 300) throw new Error(answer.text);
  return answer;
};
const setRole = (person: Person, role: string, by = opener) =>
  must(actingFor(by, id).patch(`${MEMBERS}/${person.accountId}`, { role }));

/** Invites a person, and returns the invitation's token. */
async function invited(by: Person, { email }: Person): Promise<{ token: string }> {
  await must(actingFor(by, id).post(MEMBERS, { email, role: "owner" }));
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string }[];
  const text = mails.find((mail) => mail.to === email && mail.text.includes("#code="))?.text;
  return { token: /\b[0-9a-f]{64}\b/.exec(text ?? "")?.[0] ?? "" };
}

describe("a link of a cluster user", () => {
  const links = async () => (await actingFor(opener, id).get(PATH)).body.cluster_approvers;

  test("belongs to the owner who made it, or to the member whom the owner named", async () => {
    const owner = await addMember(api, id, "owner");
    const approver = await addMember(api, id, "approver");
    const bob = { cluster: "c1", username: "bob@example.test" };
    const own = await actingFor(owner, id).post(PATH, ANN);
    const shown = {
      ...ANN,
      member: { account_id: owner.accountId, email: owner.email },
      counts: true,
      linked_by: owner.email,
    };
    expect(own).toMatchObject({ status: 201, body: shown });
    const named = await actingFor(owner, id).post(PATH, { ...bob, member_account_id: approver.accountId });
    const member = { account_id: approver.accountId, email: approver.email };
    expect(named).toMatchObject({ status: 201, body: { ...bob, member, linked_by: owner.email } });
    expect(await links()).toEqual([own.body, named.body]);
    expect(await api.db("cluster_approvers").where({ username: ANN.username, account_id: id })).toMatchObject(
      [{ member_id: owner.accountId, linked_by: owner.accountId }],
    );
  });

  test("keeps its member when another owner takes it over, as long as the member is present", async () => {
    const owner = await addMember(api, id, "owner");
    const approver = await addMember(api, id, "approver");
    const memberOf = async () =>
      ((await actingFor(opener, id).post(PATH, ANN)).body.member as { email: string }).email;
    await must(actingFor(owner, id).post(PATH, { ...ANN, member_account_id: approver.accountId }));
    expect(await memberOf()).toBe(approver.email);
    await api.db("organization_members").where({ account_id: approver.accountId }).delete();
    expect(await memberOf()).toBe(opener.email);
  });

  test("replaces the earlier link of the same user", async () => {
    const owner = await addMember(api, id, "owner");
    const { body } = await actingFor(owner, id).post(PATH, ANN);
    const again = await actingFor(opener, id).post(PATH, ANN);
    expect(again.body).toMatchObject({ approver_id: body.approver_id, linked_by: opener.email });
    expect(await links()).toEqual([again.body]);
  });

  /** Waits until all notices are sent. Returns how many mails about links a person got, and one of them. */
  async function linkMails() {
    await vi.waitFor(
      async () => expect(await api.db("notices").where({ state: "waiting" })).toEqual([]),
      60_000,
    );
    const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
    const mails = (body.mails as { to: string; text: string }[]).filter(({ text }) =>
      text.includes(`Account: ${id}`),
    );
    const count = (person: Person) => mails.filter(({ to }) => to === person.email).length;
    return { count, all: mails.length, text: mails[0]?.text };
  }

  test("causes a mail to every owner, also if it replaces another link, and to nobody else", async () => {
    const owner = await addMember(api, id, "owner");
    const approver = await addMember(api, id, "approver");
    const link = { ...ANN, member_account_id: approver.accountId };
    await must(actingFor(owner, id).post(PATH, link));
    await must(actingFor(owner, id).post(PATH, link));
    const { count, all, text } = await linkMails();
    expect([count(opener), count(owner), all]).toEqual([1, 1, 2]);
    expect(text?.replaceAll("\u2060", "")).toContain(`“${owner.email}” linked a user of a cluster`);
    const facts = `- User: ${ANN.username}\n- Cluster: “c1”\n- Member: “${approver.email}”\n`;
    expect(text?.replaceAll("\u2060", "")).toContain(facts);
    expect(text).toContain(`/console/for/${id}/clusters\n`);
    await must(actingFor(opener, id).post(PATH, ANN));
    expect((await linkMails()).all).toBe(4);
  });

  test("causes a mail to an owner's own address, also if this owner has left another organization", async () => {
    const owner = await addMember(api, id, "owner");
    const account = { account_id: owner.accountId };
    await api.db("accounts").where(account).update({ own_role: null });
    await addMember(api, owner.accountId, "owner");
    await must(actingFor(opener, id).post(PATH, ANN));
    const { count, all } = await linkMails();
    expect([count(opener), count(owner), all]).toEqual([1, 1, 2]);
  });

  test("causes a mail to an owner who got 20 about another account", async () => {
    const other = await api.person({ organization_name: "Other" });
    const owner = await addMember(api, id, "owner");
    await addMember(api, other.accountId, "owner", owner);
    for (let n = 0; n < 20; n += 1) {
      const user = { cluster: "c1", username: `user-${n}` };
      await must(actingFor(other, other.accountId).post(PATH, user));
    }
    await must(actingFor(opener, id).post(PATH, ANN));
    expect(await api.db("notices").where({ account_id: owner.accountId })).toHaveLength(21);
  });

  test("causes at most 20 mails in 24 hours to one owner, and one more that says that there may be more links", async () => {
    for (let n = 0; n < 23; n += 1) {
      await must(actingFor(opener, id).post(PATH, { cluster: "c1", username: `user-${n}` }));
    }
    const notices = () => api.db("notices").where({ account_id: id }).orderBy("created_at");
    const sayMore = async () =>
      (await notices()).map(({ payload }) => linkContent(payload).after?.includes("may be more new users"));
    expect((await sayMore()).sort()).toEqual([...Array(20).fill(false), true]);
    await api
      .db("notices")
      .where({ account_id: id })
      .update({ created_at: new Date(api.clock.now().getTime() - 24 * 3600 * 1000) });
    await must(actingFor(opener, id).post(PATH, ANN));
    expect((await sayMore()).filter((isSaid) => !isSaid)).toHaveLength(21);
  });

  test("cannot belong to a person who is not a member", async () => {
    const stranger = await api.person();
    for (const member_account_id of [stranger.accountId, crypto.randomUUID()]) {
      const answer = await actingFor(opener, id).post(PATH, { ...ANN, member_account_id });
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    const own = await stranger.client.post(PATH, { ...ANN, member_account_id: opener.accountId });
    expect(errorCode(own)).toBe("not_found");
    expect(await links()).toEqual([]);
  });
});

describe("a decision by a linked cluster user", () => {
  let owner: Person;
  let scene: DeclaredScene;
  const requests = () => api.db("delegation_requests").where({ external_id: scene.delegationId });
  /** Expects that the decision does not count, and that the request stays pending. */
  async function expectRefused(): Promise<void> {
    const answer = await scene.decide();
    expect([answer.status, errorCode(answer)]).toEqual([403, "approver_not_linked"]);
    expect(await requests()).toMatchObject([{ status: "pending" }]);
  }

  describe.each(["the person who opened the account", "another owner"])("linked to %s", (who) => {
    let linked: Person;
    let other: Person;
    beforeEach(async () => {
      owner = await addMember(api, id, "owner");
      scene = await decidedScene(api, { person: opener });
      [linked, other] = who === "another owner" ? [owner, opener] : [opener, owner];
      const link = { ...ANN, member_account_id: owner.accountId };
      if (linked === owner) await must(actingFor(owner, id).post(PATH, link));
    });

    test("counts, and the certificate names the member", async () => {
      const { body } = await scene.decide();
      expect(body.status).toBe("approved");
      expect(await api.db("certificates").where({ cert_id: String(body.cert_id) })).toMatchObject([
        { approved_by: linked.accountId },
      ]);
    });

    test("does not count after the person was removed", async () => {
      await must(actingFor(other, id).delete(`${MEMBERS}/${linked.accountId}`));
      await expectRefused();
    });

    test("does not count after an earlier version removed the person, also if the person joins again", async () => {
      if (linked === owner) await api.db("organization_members").where({ organization_id: id }).delete();
      else await api.db("accounts").where({ account_id: id }).update({ own_role: null });
      await expectRefused();
      const { token } = await invited(other, linked);
      await must(linked.client.post("/v1/service/organization/invitations/accept", { token }));
      await expectRefused();
    });

    test("does not count after the person left and joined again", async () => {
      await must(actingFor(linked, id).post("/v1/service/organization/leave", {}));
      await expectRefused();
      const { token } = await invited(other, linked);
      await must(linked.client.post("/v1/service/organization/invitations/accept", { token }));
      await expectRefused();
      await must(actingFor(linked, id).post(PATH, ANN));
      await must(actingFor(linked, id).put("/v1/service/namespace-bindings/c1/default", {}));
      expect((await scene.decide()).body.status).toBe("approved");
    });

    test.each(["developer", "auditor"])("does not count while the person has the role %s", async (role) => {
      await setRole(linked, role, other);
      await expectRefused();
      const shown = (await actingFor(other, id).get(PATH)).body.cluster_approvers;
      expect(shown).toMatchObject([{ ...ANN, counts: false }]);
      await setRole(linked, "approver", other);
      expect((await scene.decide()).body.status).toBe("approved");
    });

    test.each(["removed", "a developer"])(
      "does not count if the person is %s while the vault signs",
      async (now) => {
        let isFirst = true;
        api.vault.pause = async () => {
          if (!isFirst) return;
          isFirst = false;
          if (now === "removed") await must(actingFor(other, id).delete(`${MEMBERS}/${linked.accountId}`));
          else await setRole(linked, "developer", other);
        };
        await expectRefused();
        api.vault.pause = undefined;
        expect(await api.db("certificates").where({ account_id: id })).toEqual([]);
      },
    );
  });

  test("does not count if the user is linked to another member while the vault signs", async () => {
    scene = await decidedScene(api, { person: opener });
    const approver = await addMember(api, id, "approver");
    let isFirst = true;
    api.vault.pause = async () => {
      if (!isFirst) return;
      isFirst = false;
      await must(actingFor(opener, id).post(PATH, { ...ANN, member_account_id: approver.accountId }));
    };
    await expectRefused();
    api.vault.pause = undefined;
    expect((await scene.decide()).body.status).toBe("approved");
  });

  test("does not count if the member of the link is not known", async () => {
    scene = await decidedScene(api, { person: opener });
    await api.db("cluster_approvers").where({ account_id: id }).update({ member_id: null });
    await expectRefused();
    const shown = (await actingFor(opener, id).get(PATH)).body.cluster_approvers;
    expect(shown).toMatchObject([{ ...ANN, member: null, counts: false }]);
  });

  test("counts in a personal account, also for a link that an earlier version stored", async () => {
    scene = await decidedScene(api);
    const { accountId } = scene.person;
    await api
      .db("cluster_approvers")
      .where({ account_id: accountId })
      .update({ member_id: null, linked_by: null });
    expect((await scene.decide()).body.status).toBe("approved");
  });
});
