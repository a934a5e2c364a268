import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { accountCode } from "../support/account_codes.ts";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import type { SlowCall } from "../support/surroundings/slow_servers.ts";
import { ANN } from "./declared_scene.ts";
import { lockAccount, ORGANIZATION, type RaceRow, type Sql } from "./races.ts";

type Team = { owner: Person; member: Person };

/** A call of an organization's owner that waits for the organization's account. */
function ofMembers(
  title: string,
  gets: string,
  call: (team: Team, api: TestApi) => Promise<HttpAnswer>,
  meanwhile?: (team: Team) => Sql,
  waitsFor?: SlowCall,
): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const member = await addMember(api, owner.accountId, "owner");
      const team = { owner, member };
      return {
        holds: lockAccount(owner.accountId),
        ...(meanwhile && { meanwhile: meanwhile(team) }),
        ...(waitsFor && { waitsFor }),
        call: () => call(team, api),
      };
    },
  };
}

const memberPath = ({ member }: Team) => `${ORGANIZATION}/members/${member.accountId}`;
const removeMember = ({ owner }: Team): Sql => [
  "delete from organization_members where organization_id = $1",
  owner.accountId,
];
const demoteOwner = ({ owner }: Team): Sql => [
  "update accounts set own_role = 'auditor' where account_id = $1",
  owner.accountId,
];

const FILTERS = "/v1/service/audit/filters";
const NEW_FILTER = { name: "New", query: "result=deny" };

/** Races of the operations on organizations, their members and domains. */
export const organizationRaces: Record<string, RaceRow[]> = {
  delete_account: [
    {
      title: "whose code another call uses",
      gets: ["400 invalid_code"],
      async prepare(api) {
        const person = await api.person();
        await person.client.post("/v1/auth/account/deletion-code");
        const body = { address_code: await accountCode(api, person.email) };
        return {
          holds: ["select from account_codes where account_id = $1 for share", person.accountId],
          meanwhile: ["delete from account_codes where account_id = $1", person.accountId],
          call: () => person.client.call("DELETE", "/v1/auth/account", { body }),
        };
      },
    },
    {
      title: "of an owner who becomes the last one of an organization",
      gets: ["409 last_owner"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "owner");
        await member.client.post("/v1/auth/account/deletion-code");
        const body = { address_code: await accountCode(api, member.email) };
        return {
          holds: lockAccount(owner.accountId),
          meanwhile: demoteOwner({ owner, member }),
          call: () => member.client.call("DELETE", "/v1/auth/account", { body }),
        };
      },
    },
  ],
  change_history_filters: [
    {
      title: "by a member whom another call removes",
      gets: ["403 forbidden"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "auditor");
        return {
          holds: ["select from accounts where account_id = $1 for no key update", owner.accountId],
          meanwhile: removeMember({ owner, member }),
          call: () => actingFor(member, owner.accountId).patch(FILTERS, NEW_FILTER),
        };
      },
    },
    {
      title: "while other calls of the person reach the limit",
      gets: ["409 filter_limit"],
      async prepare(api) {
        const { accountId, client } = await api.person();
        return {
          holds: lockAccount(accountId),
          meanwhile: [
            `insert into saved_filters (account_id, person_id, name, query)
             select $1, $1, n::text, '' from generate_series(1, 20) n`,
            accountId,
          ],
          call: () => client.call("PATCH", FILTERS, { body: NEW_FILTER }),
        };
      },
    },
  ],
  change_organization: [
    ofMembers("that another call changes", "200", ({ owner }) =>
      owner.client.call("PATCH", ORGANIZATION, { body: { four_eyes: true } }),
    ),
  ],
  change_organization_member: [
    ofMembers(
      "who is removed",
      "404 not_found",
      (team) => team.owner.client.call("PATCH", memberPath(team), { body: { role: "auditor" } }),
      removeMember,
    ),
    ofMembers(
      "by an owner who loses the role",
      "403 forbidden",
      (team) => team.owner.client.call("PATCH", memberPath(team), { body: { role: "auditor" } }),
      demoteOwner,
    ),
  ],
  remove_organization_member: [
    {
      title: "while a decision of the member's cluster user is being stored",
      gets: ["200"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "owner");
        await actingFor(member, owner.accountId).post("/v1/service/cluster-approvers", ANN);
        return {
          holds: ["select from cluster_approvers where account_id = $1 for share", owner.accountId],
          call: () => owner.client.call("DELETE", memberPath({ owner, member })),
          async check() {
            expect(await api.db("cluster_approvers").where({ account_id: owner.accountId })).toEqual([]);
          },
        };
      },
    },
    {
      title: "while an owner approves a request for a connection with the member's verifiers",
      gets: ["200"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "owner");
        const { connectionId } = await registerPlatform(owner, {}, "/v1/service/platforms");
        const path = `/v1/service/connections/${connectionId}`;
        const body = { outside_verifiers: ["https://bank.example"] };
        expect((await actingFor(member, owner.accountId).patch(path, body)).status).toBe(200);
        return {
          holds: ["select from connections where connection_id = $1 for no key update", connectionId],
          // As an approval does while it holds the connection. It must not wait for the removal.
          meanwhile: lockAccount(owner.accountId),
          call: () => owner.client.call("DELETE", memberPath({ owner, member })),
          async check() {
            expect(await api.db("connections").where({ connection_id: connectionId })).toMatchObject([
              { outside_verifiers: [], outside_verifiers_by: null },
            ]);
          },
        };
      },
    },
    {
      title: "while an object declares a ceiling in the member's namespace",
      gets: ["200"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "owner");
        const path = "/v1/service/namespace-bindings/c1/team";
        expect((await actingFor(member, owner.accountId).put(path, {})).status).toBe(200);
        const own = { account_id: owner.accountId, namespace: "team" };
        return {
          holds: [
            "select from namespace_bindings where account_id = $1 and namespace = 'team' for share",
            owner.accountId,
          ],
          meanwhile: [
            `insert into declared_ceilings (account_id, cluster_id, namespace, name, ceiling)
             values ($1, 'c1', 'team', 'shop', '{data:read}')`,
            owner.accountId,
          ],
          call: () => owner.client.call("DELETE", memberPath({ owner, member })),
          async check() {
            expect(await api.db("namespace_bindings").where(own)).toEqual([]);
            expect(await api.db("declared_ceilings").where(own)).toEqual([]);
          },
        };
      },
    },
    {
      title: "while a decision relies on a principal that the member accepted",
      gets: ["200"],
      async prepare(api) {
        const owner = await api.person({ organization_name: "Engines" });
        const member = await addMember(api, owner.accountId, "owner");
        const { platformId, connectionId } = await registerPlatform(owner, {}, "/v1/service/platforms");
        const path = `/v1/service/platforms/${platformId}/accepted-principals/${member.humanId}`;
        const accepted = await actingFor(member, owner.accountId).put(path, { scopes: ["data:read"] });
        expect(accepted.status).toBe(200);
        return {
          holds: ["select from accepted_principals where connection_id = $1 for share", connectionId],
          call: () => owner.client.call("DELETE", memberPath({ owner, member })),
          async check() {
            expect(await api.db("accepted_principals").where({ connection_id: connectionId })).toEqual([]);
          },
        };
      },
    },
    ofMembers(
      "who is the last owner since another demotion",
      "403 forbidden",
      (team) => team.owner.client.call("DELETE", memberPath(team)),
      demoteOwner,
    ),
  ],
  leave_organization: [
    ofMembers(
      "while the only other owner is removed",
      "409 last_owner",
      ({ owner }) => owner.client.post(`${ORGANIZATION}/leave`),
      removeMember,
    ),
  ],
  invite_organization_member: [
    ofMembers(
      "by an owner who loses the role",
      "403 forbidden",
      ({ owner }) =>
        owner.client.post(`${ORGANIZATION}/members`, { email: "new@example.test", role: "approver" }),
      demoteOwner,
    ),
    ofMembers(
      "by an owner who loses the role after the email was sent",
      "403 forbidden",
      ({ owner }) =>
        owner.client.post(`${ORGANIZATION}/members`, { email: "new@example.test", role: "approver" }),
      demoteOwner,
      "send",
    ),
    ofMembers(
      "while others fill the organization",
      "409 member_limit",
      ({ owner }) =>
        owner.client.post(`${ORGANIZATION}/members`, { email: "new@example.test", role: "approver" }),
      ({ owner }) => [
        `insert into organization_invitations (invitation_id, organization_id, email, role, token_hash, invited_by, created_at, expires_at)
         select gen_random_uuid(), $1, n || '@example.test', 'auditor', sha256(n::text::bytea), $1, now(), now() + interval '1 day'
         from generate_series(1, 198) n`,
        owner.accountId,
      ],
    ),
  ],
  accept_invitation: [
    invitationRace("that is withdrawn", ({ owner }) => [
      "delete from organization_invitations where organization_id = $1",
      owner.accountId,
    ]),
    invitationRace("by a person who deletes their account", ({ invited }) => [
      "update accounts set email = account_id || '@deleted.invalid' where account_id = $1",
      invited.accountId,
    ]),
  ],
  add_organization_domain: [
    ofMembers(
      "while others reach the limit",
      "409 domain_limit",
      ({ owner }) => owner.client.post(`${ORGANIZATION}/domains`, { domain: "new.example.com" }),
      ({ owner }) => [
        `insert into organization_domains (organization_id, domain, token, created_at)
         select $1, 'd' || n || '.example.com', md5(n::text), now() from generate_series(1, 20) n`,
        owner.accountId,
      ],
    ),
  ],
  verify_organization_domain: [
    domainRace({
      title: "that another organization verifies",
      gets: "409 domain_taken",
      holds: ({ domain }) => ["select pg_advisory_xact_lock(hashtextextended($1, 1))", domain],
      meanwhile: ({ domain, other }) => [
        `insert into organization_domains (organization_id, domain, token, created_at, verified_at)
         values ($1, $2, 'other', now(), now())`,
        other.accountId,
        domain,
      ],
      call: ({ owner, domain }) => owner.client.post(`${ORGANIZATION}/domains/${domain}/verify`),
    }),
  ],
  remove_organization_domain: [
    domainRace({
      title: "under which another call publishes a platform",
      gets: "200",
      meanwhile: ({ platform, domain }) => [
        "update platforms set publish_state = 'published', published_domain = $2 where platform_id = $1",
        platform.platformId,
        domain,
      ],
      state: "suspended",
      holds: ({ owner, domain }) => [
        "select from organization_domains where organization_id = $1 and domain = $2 for share",
        owner.accountId,
        domain,
      ],
      call: ({ owner, domain }) => owner.client.call("DELETE", `${ORGANIZATION}/domains/${domain}`),
    }),
  ],
  publish_platform: [
    domainRace({
      title: "under a domain that is removed",
      gets: "403 domain_not_verified",
      isVerified: true,
      holds: ({ owner, domain }) => [
        "select from organization_domains where organization_id = $1 and domain = $2 for no key update",
        owner.accountId,
        domain,
      ],
      meanwhile: ({ owner, domain }) => [
        "delete from organization_domains where organization_id = $1 and domain = $2",
        owner.accountId,
        domain,
      ],
      async call({ owner, platform }) {
        return owner.client.post(`/v1/service/platforms/${platform.platformId}/publish`);
      },
    }),
  ],
};

type DomainScene = { owner: Person; other: Person; domain: string; platform: TestPlatform };
type DomainRace = {
  title: string;
  gets: string;
  isVerified?: boolean;
  /** The platform's state after the call. Default: draft. */
  state?: string;
  holds(scene: DomainScene): Sql;
  meanwhile?(scene: DomainScene): Sql;
  call(scene: DomainScene): Promise<HttpAnswer>;
};

function domainRace(race: DomainRace): RaceRow {
  const { title, gets, isVerified = false, state = "draft", holds, meanwhile, call } = race;
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const [owner, other] = await Promise.all(
        ["Engines", "Others"].map((organization_name) => api.person({ organization_name })),
      );
      if (owner === undefined || other === undefined) throw new Error("There are no organizations");
      const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
      const domain = `d${randomUUID()}.example.com`;
      await owner.client.post(`${ORGANIZATION}/domains`, { domain });
      if (isVerified) await owner.client.post(`${ORGANIZATION}/domains/${domain}/verify`);
      const scene = { owner, other, domain, platform };
      return {
        holds: holds(scene),
        ...(meanwhile && { meanwhile: meanwhile(scene) }),
        call: () => call(scene),
        async check() {
          const own = { platform_id: platform.platformId };
          expect(await api.db("platforms").where(own).pluck("publish_state")).toEqual([state]);
        },
      };
    },
  };
}

/** The acceptance of an invitation beside another change. */
function invitationRace(
  title: string,
  meanwhile: (people: { owner: Person; invited: Person }) => Sql,
): RaceRow {
  return {
    title,
    gets: ["400 invalid_invitation"],
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const invited = await api.person();
      await owner.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
      const { body } = await owner.client.get("/dev/mailbox", { headers: { accept: "application/json" } });
      const mails = body.mails as { to: string; text: string }[];
      const mail = mails.find(({ to, text }) => to === invited.email && text.includes("invites"));
      const token = /\b[0-9a-f]{64}\b/.exec(mail?.text ?? "")?.[0] ?? "";
      return {
        holds: lockAccount(owner.accountId),
        meanwhile: meanwhile({ owner, invited }),
        call: () => invited.client.post(`${ORGANIZATION}/invitations/accept`, { token }),
      };
    },
  };
}
