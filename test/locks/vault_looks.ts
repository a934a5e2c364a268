import { randomUUID } from "node:crypto";
import type { Person, TestApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { registerPlatform, requested } from "../support/platform_world.ts";
import { type DeclaredScene, decidedScene, declaredScene, newId } from "./declared_scene.ts";
import { keyed, ORGANIZATION, type Owned, owned, pathOf, type SecondLook } from "./races.ts";

/** Checks that are repeated after a call to the vault. */
export const vaultLooks: SecondLook[] = [
  ...approvals(),
  ...organizationApprovals(),
  ...decisionsInClusters(),
  ...newAgents(),
  {
    operation: "set_account_type",
    waitsFor: "createKey",
    title: "for an account whose onboarding another call completes",
    gets: "409 onboarding_step",
    async prepare(api) {
      const client = api.client();
      const { account_id } = await client.signIn(`${randomUUID()}@example.test`);
      await client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" });
      const step = (body: object) => client.post("/v1/auth/onboarding/account-type", body);
      return {
        call: () => step({ account_type: "individual" }),
        meanwhile: () => step({ account_type: "organization", organization_name: "Engines" }),
        stored: () => api.db("accounts").where({ account_id, account_type: "individual" }),
      };
    },
  },
];

function approvals(): SecondLook[] {
  type Pending = Awaited<ReturnType<typeof requested>>;
  const { agent, connection } = {
    agent: ({ person, platform, agentId }: Pending) =>
      person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}/agents/${agentId}`),
    connection: ({ person, platform }: Pending) =>
      person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`),
  };
  const looks: [title: string, gets: string, meanwhile: (pending: Pending) => Promise<unknown>][] = [
    [
      "above a ceiling that shrinks",
      "400 ceiling_exceeded",
      ({ person, platform }) =>
        person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
          body: { default_allowed_scopes: ["data:share"] },
        }),
    ],
    ["for an agent that is deleted", "409 request_not_pending", agent],
    ["for a connection that is removed", "409 request_not_pending", connection],
    [
      "of a request that another call denies",
      "409 request_not_pending",
      ({ person, requestId }) => person.client.post(`/v1/service/delegations/requests/${requestId}/deny`),
    ],
  ];
  return looks.map(([title, gets, meanwhile]) => ({
    operation: "approve_delegation_request",
    waitsFor: "signDelegation",
    title,
    gets,
    async prepare(api) {
      const pending = await requested(api);
      const path = `/v1/service/delegations/requests/${pending.requestId}/approve`;
      return {
        call: () => pending.person.client.post(path, { approved_scope: ["data:read"] }),
        meanwhile: () => meanwhile(pending),
        stored: () => api.db("certificates").where({ request_id: pending.requestId }),
      };
    },
  }));
}

function organizationApprovals(): SecondLook[] {
  type Team = { owner: Person; member: Person };
  const role = (name: string) => (team: Team) =>
    team.owner.client.call("PATCH", `${ORGANIZATION}/members/${team.member.accountId}`, {
      body: { role: name },
    });
  const looks: [title: string, gets: string, meanwhile: (team: Team) => Promise<unknown>][] = [
    ["by a member who becomes a developer", "403 forbidden", role("developer")],
    ["by a member who becomes an auditor", "403 forbidden", role("auditor")],
    [
      "by a member who is removed",
      "403 forbidden",
      ({ owner, member }) => owner.client.call("DELETE", `${ORGANIZATION}/members/${member.accountId}`),
    ],
    [
      "by its requester while four eyes become necessary",
      "403 four_eyes_required",
      ({ owner }) => owner.client.call("PATCH", ORGANIZATION, { body: { four_eyes: true } }),
    ],
  ];
  return looks.map(([title, gets, meanwhile]) => ({
    operation: "approve_delegation_request",
    waitsFor: "signDelegation",
    title,
    gets,
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
      const member = await addMember(api, owner.accountId, "owner");
      await requested(api, {}, { person: owner, platform });
      const acting = actingFor(member, owner.accountId);
      const asked = await acting.post("/v1/service/delegations/self-request", {
        connection_id: platform.connectionId,
      });
      const requestId = String(asked.body.request_id);
      return {
        call: () =>
          acting.post(`/v1/service/delegations/requests/${requestId}/approve`, {
            approved_scope: ["data:read"],
          }),
        meanwhile: () => meanwhile({ owner, member }),
        stored: () => api.db("certificates").where({ request_id: requestId }),
      };
    },
  }));
}

const BINDING = "/v1/service/namespace-bindings/c1/default";

function decisionsInClusters(): SecondLook[] {
  const bind = (body: object) => (scene: DeclaredScene) => scene.person.client.call("PUT", BINDING, { body });
  const looks: [title: string, gets: string, meanwhile: (scene: DeclaredScene) => Promise<unknown>][] = [
    [
      "by a user whose link is removed",
      "403 approver_not_linked",
      async ({ person: { client } }) => {
        const { body } = await client.get("/v1/service/cluster-approvers");
        const [{ approver_id }] = body.cluster_approvers as [{ approver_id: string }];
        return client.call("DELETE", `/v1/service/cluster-approvers/${approver_id}`);
      },
    ],
    [
      "in a namespace whose acceptance ends",
      "404 namespace_not_bound",
      ({ person: { client } }) => client.call("DELETE", BINDING),
    ],
    [
      "in a namespace for which the owner now accepts fewer scopes",
      "400 ceiling_exceeded",
      bind({ ceiling: ["data:share"] }),
    ],
    [
      "without a requester while four eyes become necessary",
      "403 four_eyes_required",
      bind({ four_eyes: true }),
    ],
  ];
  return looks.map(([title, gets, meanwhile]) => ({
    operation: "internal_decide_delegation",
    waitsFor: "signDelegation",
    title,
    gets,
    async prepare(api) {
      const scene = await decidedScene(api, { requestedBy: null });
      return {
        call: scene.decide,
        meanwhile: () => meanwhile(scene),
        stored: () => api.db("certificates").where({ account_id: scene.person.accountId }),
      };
    },
  }));
}

function newAgents(): SecondLook[] {
  const remove = ({ person, platform }: Owned) =>
    person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
  const stored = (api: TestApi, { platform }: Owned, name: string) =>
    api.db("agents").where({ connection_id: platform.connectionId, name });
  const order = { name: "new bot", agent_type: "robot" };
  const declared = (title: string, gets: string, meanwhile: (scene: DeclaredScene) => Promise<unknown>) => ({
    operation: "internal_put_agent",
    waitsFor: "createKey" as const,
    title,
    gets,
    async prepare(api: TestApi) {
      const scene = await declaredScene(api);
      const body = { ...order, platform_external_id: scene.id };
      return {
        call: () => api.operator("PUT", `/internal/v1/agents/${newId()}`, body),
        meanwhile: () => meanwhile(scene),
        stored: () => stored(api, scene, order.name),
      };
    },
  });
  return [
    {
      operation: "create_agent",
      waitsFor: "createKey",
      title: "for a connection that is removed",
      gets: "404 not_found",
      async prepare(api) {
        const own = await owned(api);
        return {
          call: () => keyed(api, own, "POST", pathOf(own, "/agents"), order),
          meanwhile: () => remove(own),
          stored: () => stored(api, own, order.name),
        };
      },
    },
    declared("for a platform that is removed", "404 not_found", remove),
    declared("in a namespace whose acceptance ends", "404 namespace_not_bound", ({ person: { client } }) =>
      client.call("DELETE", BINDING),
    ),
  ];
}
