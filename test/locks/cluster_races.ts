import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { declaration } from "../platforms/declarations.ts";
import type { TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { createAgent } from "../support/platform_world.ts";
import { agentAdoptions, platformAdoption } from "./adoption_races.ts";
import { ANN, type DeclaredScene, decidedScene, declaredRace, newId } from "./declared_scene.ts";
import { lockAccount, NOT_FOUND, type Owned, owned, pathOf, type RaceRow, type Sql } from "./races.ts";

type Declaring = Pick<DeclaredScene, "person">;
const NOT_BOUND = ["404 namespace_not_bound"];
const lockOwner = ({ person }: Declaring) => lockAccount(person.accountId);
const lockBinding = ({ person }: Declaring): Sql => [
  "select from namespace_bindings where account_id = $1 for no key update",
  person.accountId,
];
const endBinding = ({ person }: Declaring): Sql => [
  "delete from namespace_bindings where account_id = $1",
  person.accountId,
];
const narrowBinding = ({ person }: Declaring): Sql => [
  "update namespace_bindings set ceiling = '{data:share}' where account_id = $1",
  person.accountId,
];

/** A call that relies on an acceptance of a namespace, which ends. */
function bindingRace(
  title: string,
  call: (scene: DeclaredScene) => Promise<HttpAnswer>,
  decision?: string,
): RaceRow {
  return {
    title,
    gets: NOT_BOUND,
    async prepare(api) {
      const scene = await decidedScene(api, { decision });
      return { holds: lockBinding(scene), meanwhile: endBinding(scene), call: () => call(scene) };
    },
  };
}

const putKey = ({ api, agentId }: DeclaredScene) =>
  api.operator("PUT", `/internal/v1/agents/${agentId}/key`, {});

function newPlatformRace(
  title: string,
  gets: string[],
  holds: (scene: Declaring) => Sql,
  meanwhile: (scene: Declaring) => Sql,
): RaceRow {
  return {
    title,
    gets,
    async prepare(api) {
      const person = await api.person();
      return {
        holds: holds({ person }),
        meanwhile: meanwhile({ person }),
        call: () => api.operator("PUT", `/internal/v1/platforms/${newId()}`, declaration(person)),
      };
    },
  };
}

const lockApprovers = (accountId: string): Sql => [
  "select from cluster_approvers where account_id = $1 for no key update",
  accountId,
];

/** A call by an owner whom another call removes meanwhile. */
function formerOwnerRace(
  method: string,
  pathFor: (owned: Owned) => Promise<string> | string,
  body: object,
): RaceRow {
  return {
    title: "by an owner whom another call removes",
    gets: ["403 forbidden"],
    async prepare(api) {
      const own = await owned(api);
      const { accountId, client } = own.person;
      const path = await pathFor(own);
      return {
        holds: lockAccount(accountId),
        meanwhile: ["update accounts set own_role = null where account_id = $1", accountId],
        call: () => client.call(method, path, { body }),
      };
    },
  };
}

const OBJECT = { cluster: "c1", namespace: "default", name: "shop" };

/** Races of the operations on namespaces and approvers, and of the operator's operations. */
export const clusterRaces: Record<string, RaceRow[]> = {
  confirm_platform_adoption: [
    formerOwnerRace("PUT", ({ platform }) => `/v1/service/platforms/${platform.platformId}/adoption`, OBJECT),
  ],
  confirm_agent_adoption: [
    formerOwnerRace(
      "PUT",
      async ({ person, platform }) => {
        const agent = await createAgent(person.client, platform);
        return pathOf({ person, platform }, `/agents/${agent}/adoption`);
      },
      OBJECT,
    ),
  ],
  set_request_channel: [
    formerOwnerRace("PUT", () => "/v1/service/request-channel", {
      app: "slack",
      url: "https://hooks.example.com/secret",
    }),
  ],
  remove_request_channel: [formerOwnerRace("DELETE", () => "/v1/service/request-channel", {})],
  accept_namespace_binding: [
    formerOwnerRace("PUT", () => "/v1/service/namespace-bindings/c1/new", {}),
    {
      title: "while others reach the limit",
      gets: ["409 namespace_limit"],
      async prepare(api) {
        const { client, accountId } = await api.person();
        return {
          holds: lockAccount(accountId),
          meanwhile: [
            `insert into namespace_bindings (account_id, cluster_id, namespace, asked_at, accepted_at, four_eyes)
             select $1, 'c1', 'n' || n, now(), now(), false from generate_series(1, 999) n`,
            accountId,
          ],
          call: () => client.call("PUT", "/v1/service/namespace-bindings/c1/new", { body: {} }),
        };
      },
    },
  ],
  end_namespace_binding: [
    {
      title: "that a declaration relies on",
      gets: ["200"],
      async prepare(api) {
        const { client, accountId } = await api.person();
        return {
          holds: ["select from namespace_bindings where account_id = $1 for share", accountId],
          call: () => client.call("DELETE", "/v1/service/namespace-bindings/c1/default"),
        };
      },
    },
  ],
  link_cluster_approver: [
    formerOwnerRace("POST", () => "/v1/service/cluster-approvers", ANN),
    {
      title: "while others reach the limit",
      gets: ["409 approver_limit"],
      async prepare(api) {
        const { client, accountId } = await api.person();
        const body = { cluster: "c1", username: "new@example.test" };
        return {
          holds: lockAccount(accountId),
          meanwhile: [
            `insert into cluster_approvers (approver_id, account_id, cluster_id, username, linked_at)
             select gen_random_uuid(), $1, 'c1', 'user-' || n, now() from generate_series(1, 1000) n`,
            accountId,
          ],
          call: () => client.post("/v1/service/cluster-approvers", body),
        };
      },
    },
  ],
  unlink_cluster_approver: [
    {
      title: "whose decision is being stored",
      gets: ["200"],
      async prepare(api) {
        const { client, accountId } = await api.person();
        const body = { cluster: "c1", username: "ann@example.test" };
        const linked = await client.post("/v1/service/cluster-approvers", body);
        return {
          holds: ["select from cluster_approvers where account_id = $1 for share", accountId],
          call: () =>
            client.call("DELETE", `/v1/service/cluster-approvers/${String(linked.body.approver_id)}`),
        };
      },
    },
  ],
  internal_claim_leadership: [
    {
      title: "that another process claims",
      gets: ["200", "200"],
      async prepare(api) {
        const cluster = randomUUID();
        const body = { holder: "operator" };
        await api.operator("POST", "/internal/v1/leadership", body, { cluster, epoch: 0 });
        return {
          holds: ["select from operator_clusters where cluster_id = $1 for update", cluster],
          call: () => api.operator("POST", "/internal/v1/leadership", body, { cluster, epoch: 0 }),
          times: 2,
          check(answers) {
            const [first, second] = answers
              .map(({ body }) => body as { epoch: number; former_epoch: number })
              .sort((one, other) => one.epoch - other.epoch);
            expect(second?.former_epoch).toBe(first?.epoch);
          },
        };
      },
    },
  ],
  internal_put_platform: [
    declaredRace("that another call removes", NOT_FOUND, ({ declare }) => declare({ name: "Store" })),
    platformAdoption,
    declaredRace(
      "with accepted principals, in a namespace whose acceptance ends",
      NOT_BOUND,
      ({ declare }) => declare({ accepted_principals: [] }),
      endBinding,
    ),
    ...[{ name: "Store" }, { callback_url: "https://hooks.example.test/" }].map((change) =>
      declaredRace(
        `with a new ${Object.keys(change)[0]}, in a namespace whose acceptance ends`,
        NOT_BOUND,
        ({ declare }) => declare(change),
        endBinding,
      ),
    ),
    declaredRace(
      "with a new name, in a namespace for which the owner now accepts fewer scopes",
      ["400 ceiling_exceeded"],
      ({ declare }) => declare({ name: "Store" }),
      narrowBinding,
    ),
    newPlatformRace("of a namespace whose acceptance ends", NOT_BOUND, lockBinding, endBinding),
    newPlatformRace(
      "beside another registration while the acceptance ends",
      NOT_BOUND,
      lockOwner,
      endBinding,
    ),
    newPlatformRace(
      "beside another registration while the owner accepts fewer scopes",
      ["400 ceiling_exceeded"],
      lockOwner,
      narrowBinding,
    ),
    {
      title: "whose recorded ceiling another call narrows",
      gets: ["400 ceiling_widened"],
      async prepare(api) {
        const person = await api.person();
        const object = { namespace: "default", name: "shop" };
        const [first, second] = [newId(), newId()];
        await api.operator("PUT", `/internal/v1/platforms/${first}`, declaration(person, { object }));
        await api.operator("DELETE", `/internal/v1/platforms/${first}`);
        return {
          holds: ["select from declared_ceilings where account_id = $1 for update", person.accountId],
          meanwhile: [
            "update declared_ceilings set ceiling = '{data:share}' where account_id = $1",
            person.accountId,
          ],
          call: () =>
            api.operator("PUT", `/internal/v1/platforms/${second}`, declaration(person, { object })),
        };
      },
    },
  ],
  internal_acknowledge_credentials: [
    declaredRace(
      "whose key another call rotates",
      ["409 external_conflict"],
      ({ api, id, prefix }) =>
        api.operator("POST", `/internal/v1/platforms/${id}/credentials/acknowledge`, {
          api_key_prefix: prefix,
        }),
      ({ platform }) => [
        "update api_keys set key_prefix = 'dpz_other' where connection_id = $1",
        platform.connectionId,
      ],
    ),
  ],
  internal_rotate_credentials: [
    declaredRace(
      "in a namespace whose acceptance ends",
      NOT_BOUND,
      ({ api, id }) => api.operator("POST", `/internal/v1/platforms/${id}/credentials/rotate`, {}),
      endBinding,
    ),
    declaredRace("that another call removes", NOT_FOUND, ({ api, id }) =>
      api.operator("POST", `/internal/v1/platforms/${id}/credentials/rotate`, {}),
    ),
  ],
  internal_remove_platform: [
    declaredRace("that another call removes", ["200"], ({ api, id }) =>
      api.operator("DELETE", `/internal/v1/platforms/${id}`),
    ),
    declaredRace(
      "in a namespace whose acceptance ends",
      NOT_BOUND,
      ({ api, id }) => api.operator("DELETE", `/internal/v1/platforms/${id}`),
      endBinding,
    ),
  ],
  internal_put_agent: [
    declaredRace("whose platform is removed", NOT_FOUND, ({ putAgent }) => putAgent(newId())),
    bindingRace("in a namespace whose acceptance ends", ({ putAgent }) => putAgent(newId())),
    bindingRace("with a new name, in a namespace whose acceptance ends", ({ putAgent, agentId }) =>
      putAgent(agentId, "Helper"),
    ),
    ...agentAdoptions,
  ],
  internal_remove_agent: [
    declaredRace("whose platform is removed", ["200"], ({ api, agentId }) =>
      api.operator("DELETE", `/internal/v1/agents/${agentId}`),
    ),
    declaredRace(
      "in a namespace whose acceptance ends",
      NOT_BOUND,
      ({ api, agentId }) => api.operator("DELETE", `/internal/v1/agents/${agentId}`),
      endBinding,
    ),
  ],
  internal_put_agent_key: [
    declaredRace("whose platform is removed", NOT_FOUND, putKey),
    declaredRace("in a namespace whose acceptance ends", NOT_BOUND, putKey, endBinding),
    declaredRace("that another object takes over", NOT_FOUND, putKey, ({ agentId }) => [
      "update agents set external_id = 'c1.other' || external_id where external_id = $1",
      agentId,
    ]),
  ],
  internal_remove_agent_key: [
    declaredRace("whose platform is removed", ["200"], ({ api, agentId }) =>
      api.operator("DELETE", `/internal/v1/agents/${agentId}/key`),
    ),
  ],
  internal_put_delegation: [
    bindingRace("whose namespace another call stops accepting", ({ putDelegation }) =>
      putDelegation(newId()),
    ),
    declaredRace("whose platform is removed", NOT_FOUND, ({ putDelegation }) => putDelegation(newId())),
    declaredRace(
      "in a namespace whose acceptance ends",
      NOT_BOUND,
      ({ putDelegation }) => putDelegation(newId()),
      endBinding,
    ),
    declaredRace(
      "in a namespace for which the owner now accepts fewer scopes",
      ["400 ceiling_exceeded"],
      ({ putDelegation }) => putDelegation(newId()),
      narrowBinding,
    ),
  ],
  internal_revoke_delegation: [
    declaredRace(
      "that another call decides",
      ["200"],
      ({ api, delegationId }) => api.operator("POST", `/internal/v1/delegations/${delegationId}/revoke`, {}),
      ({ delegationId }) => [
        "update delegation_requests set status = 'withdrawn', decided_at = now() where external_id = $1",
        delegationId,
      ],
    ),
  ],
  internal_decide_delegation: ["Approved", "Denied"].flatMap((decision) => [
    {
      title: `(${decision}) by a user whose member loses the role`,
      gets: ["403 approver_not_linked"],
      async prepare(api: TestApi) {
        const { person, decide } = await decidedScene(api, { decision });
        const change = "update accounts set own_role = 'developer' where account_id = $1";
        return {
          holds: ["select from accounts where account_id = $1 for no key update", person.accountId] as Sql,
          meanwhile: [change, person.accountId] as Sql,
          call: decide,
        };
      },
    },
    {
      title: `(${decision}) by a user whose link is removed`,
      gets: ["403 approver_not_linked"],
      async prepare(api: TestApi) {
        const { person, decide } = await decidedScene(api, { decision });
        return {
          holds: lockApprovers(person.accountId),
          meanwhile: ["delete from cluster_approvers where account_id = $1", person.accountId] as Sql,
          call: decide,
        };
      },
    },
    bindingRace(`(${decision}) in a namespace whose acceptance ends`, ({ decide }) => decide(), decision),
  ]),
};
