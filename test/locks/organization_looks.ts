import { randomUUID } from "node:crypto";
import type { Person, TestApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { ORGANIZATION, type SecondLook } from "./races.ts";

/** Checks that are repeated after an invitation was mailed or a TXT record was looked up. */
export const organizationLooks: SecondLook[] = [...invitations(), ...domains()];

type Team = { api: TestApi; owner: Person; member: Person; email: string };

function invitations(): SecondLook[] {
  const looks: [title: string, gets: string, meanwhile: (team: Team) => Promise<unknown>][] = [
    [
      "by an owner who loses the role",
      "403 forbidden",
      ({ owner, member }) =>
        actingFor(member, owner.accountId).patch(`${ORGANIZATION}/members/${owner.accountId}`, {
          role: "approver",
        }),
    ],
    [
      "of a person who becomes a member",
      "409 already_member",
      ({ api, member, email }) =>
        api.db("accounts").where({ account_id: member.accountId }).update({ email }),
    ],
    [
      "to an organization that becomes full",
      "409 member_limit",
      ({ api, owner }) =>
        api.db("organization_invitations").insert(
          Array.from({ length: 198 }, (_, n) => ({
            invitation_id: randomUUID(),
            organization_id: owner.accountId,
            email: `${n}@example.test`,
            role: "auditor" as const,
            token_hash: Buffer.from(randomUUID()),
            invited_by: owner.accountId,
            created_at: api.clock.now(),
            expires_at: new Date(api.clock.now().getTime() + 1000),
          })),
        ),
    ],
  ];
  return looks.map(([title, gets, meanwhile]) => ({
    operation: "invite_organization_member",
    waitsFor: "send",
    title,
    gets,
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const member = await addMember(api, owner.accountId, "owner");
      const email = `${randomUUID()}@example.test`;
      return {
        call: () => owner.client.post(`${ORGANIZATION}/members`, { email, role: "approver" }),
        meanwhile: () => meanwhile({ api, owner, member, email }),
        stored: () => api.db("organization_invitations").where({ organization_id: owner.accountId, email }),
      };
    },
  }));
}

function domains(): SecondLook[] {
  const path = `${ORGANIZATION}/domains`;
  type Scene = { owner: Person; other: Person; domain: string };
  const looks: [title: string, gets: string, meanwhile: (scene: Scene) => Promise<unknown>][] = [
    [
      "that another organization verifies",
      "409 domain_taken",
      ({ other, domain }) => other.client.post(`${path}/${domain}/verify`),
    ],
    [
      "that is removed and added again, with another record",
      "409 domain_taken",
      async ({ owner, domain }) => {
        await owner.client.call("DELETE", `${path}/${domain}`);
        await owner.client.post(path, { domain });
      },
    ],
  ];
  return looks.map(([title, gets, meanwhile]) => ({
    operation: "verify_organization_domain",
    waitsFor: "lookupTxt",
    title,
    gets,
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const other = await api.person({ organization_name: "Others" });
      const domain = `d${randomUUID()}.example.com`;
      for (const { client } of [owner, other]) await client.post(path, { domain });
      return {
        call: () => owner.client.post(`${path}/${domain}/verify`),
        meanwhile: () => meanwhile({ owner, other, domain }),
        stored: () =>
          api
            .db("organization_domains")
            .where({ organization_id: owner.accountId, domain })
            .whereNotNull("verified_at"),
      };
    },
  }));
}
