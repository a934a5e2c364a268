import { expect } from "vitest";
import { connectScene } from "../connect/scene.ts";
import type { Person, TestApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { connect, publisher } from "../support/two_companies.ts";
import { lockConnection, NOT_FOUND, type Owned, type RaceRow, removeConnection, type Sql } from "./races.ts";

const PROPOSALS = "/v1/service/connect-proposals";

/** Returns a code of an organization's approver, and the call that exchanges it. */
async function decided(api: TestApi) {
  const { product, code, exchange, customers } = connectScene(api);
  const shop = await product();
  const customer = await api.person({ organization_name: "Analytical Engines" });
  const approver = await addMember(api, customer.accountId, "approver");
  const known = await code(shop, approver, { accountId: customer.accountId });
  const check = async () => expect(await customers(shop)).toEqual([]);
  return { shop, customer, approver, call: () => exchange(shop, known), check };
}

/** Returns a person who has read a product's request for an account, and the call that approves it. */
async function approval(api: TestApi, given?: Person, accountId?: string) {
  const { product, begun } = connectScene(api);
  const shop = await product();
  const person = given ?? (await api.person());
  const acting = actingFor(person, accountId ?? person.accountId);
  const path = `/v1/service/connect-requests/${(await begun(shop)).requestId}`;
  const { consent_hash } = (await acting.get(path)).body;
  const call = () => acting.post(`${path}/approve`, { scopes: ["data:read"], consent_hash });
  return { shop, person, call };
}

/** Returns a developer of an organization who has read a product's request, and what proposes it. */
async function proposing(api: TestApi) {
  const { product, begun } = connectScene(api);
  const shop = await product();
  const customer = await api.person({ organization_name: "Analytical Engines" });
  const developer = await addMember(api, customer.accountId, "developer");
  const acting = actingFor(developer, customer.accountId);
  const path = `/v1/service/connect-requests/${(await begun(shop)).requestId}`;
  const { consent_hash } = (await acting.get(path)).body;
  return { shop, customer, developer, acting, path, body: { scopes: ["data:read"], consent_hash } };
}

/** Returns a proposal, an approver, and the call that approves it. */
async function proposal(api: TestApi) {
  const proposed = await proposing(api);
  await proposed.acting.post(`${proposed.path}/propose`, proposed.body);
  const { customer, shop } = proposed;
  const approver = await addMember(api, customer.accountId, "approver");
  const acting = actingFor(approver, customer.accountId);
  const { items } = (await acting.get(PROPOSALS)).body as { items: Record<string, string>[] };
  const { proposal_id: proposalId = "", consent_hash } = items[0] ?? {};
  const path = `${PROPOSALS}/${proposalId}`;
  const call = () => acting.post(`${path}/approve`, { scopes: ["data:read"], consent_hash });
  return { shop, customer, approver, proposalId, acting, path, call };
}

const unpublishing = (platformId: string): { holds: Sql; meanwhile: Sql } => ({
  holds: ["select from platforms where platform_id = $1 for no key update", platformId],
  meanwhile: [
    "update platforms set publish_state = 'draft', published_domain = null where platform_id = $1",
    platformId,
  ],
});

/** A call of the customer or the publisher about a connection that another call ends. */
function ending(by: "customer" | "publisher", call: (path: string) => Call, gets: string): RaceRow {
  return {
    title: "that another call ends",
    gets: [gets],
    async prepare(api) {
      const shop = await publisher(api);
      const { person, connectionId } = await connect(api, shop);
      const path =
        by === "customer"
          ? `/v1/service/connected-products/${connectionId}`
          : `/v1/service/platforms/${shop.platform.platformId}/customers/${connectionId}`;
      const { client } = by === "customer" ? person : shop.person;
      return {
        holds: ["select from connections where connection_id = $1 for share", connectionId],
        meanwhile: ["update connections set removed_at = now() where connection_id = $1", connectionId],
        call: () => client.call(...call(path)),
      };
    },
  };
}

type Call = [method: string, path: string, more?: { body: object }];

/** Races of connecting a customer. Refusals of the exchange have no code of this service. */
export const connectRaces: Record<string, RaceRow[]> = {
  approve_connect_request: [
    {
      title: "of a platform that another call unpublishes",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { shop, call } = await approval(api);
        return { ...unpublishing(shop.platformId), call };
      },
    },
    {
      title: "by a person who loses the role",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { person, call } = await approval(api);
        return {
          holds: ["select from accounts where account_id = $1 for no key update", person.accountId],
          meanwhile: ["update accounts set own_role = 'auditor' where account_id = $1", person.accountId],
          call,
        };
      },
    },
    {
      title: "by an approver of an organization that leaves it to owners",
      gets: ["403 forbidden"],
      async prepare(api) {
        const customer = await api.person({ organization_name: "Analytical Engines" });
        const approver = await addMember(api, customer.accountId, "approver");
        const { call } = await approval(api, approver, customer.accountId);
        return {
          holds: ["select from accounts where account_id = $1 for no key update", customer.accountId],
          meanwhile: ["update accounts set connecting = 'owners' where account_id = $1", customer.accountId],
          call,
        };
      },
    },
  ],
  propose_connect_request: [
    {
      title: "by a developer whom another call removes",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { developer, customer, acting, path, body } = await proposing(api);
        return {
          holds: ["select from accounts where account_id = $1 for share", customer.accountId],
          meanwhile: ["delete from organization_members where account_id = $1", developer.accountId],
          call: () => acting.post(`${path}/propose`, body),
        };
      },
    },
    {
      title: "of a platform that another call unpublishes",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { shop, acting, path, body } = await proposing(api);
        return { ...unpublishing(shop.platformId), call: () => acting.post(`${path}/propose`, body) };
      },
    },
  ],
  approve_connect_proposal: [
    {
      title: "by an approver who loses the role",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { customer, approver, call } = await proposal(api);
        return {
          holds: ["select from accounts where account_id = $1 for no key update", customer.accountId],
          meanwhile: [
            "update organization_members set role = 'auditor' where account_id = $1",
            approver.accountId,
          ],
          call,
        };
      },
    },
    {
      title: "of a platform that another call unpublishes",
      gets: NOT_FOUND,
      async prepare(api) {
        const { shop, call } = await proposal(api);
        return { ...unpublishing(shop.platformId), call };
      },
    },
    {
      title: "that another call declines",
      gets: NOT_FOUND,
      async prepare(api) {
        const { proposalId, call } = await proposal(api);
        return {
          holds: ["select from connect_proposals where proposal_id = $1 for share", proposalId],
          meanwhile: ["delete from connect_proposals where proposal_id = $1", proposalId],
          call,
        };
      },
    },
  ],
  end_connect_proposal: [
    {
      title: "by an approver who loses the role",
      gets: ["403 forbidden"],
      async prepare(api) {
        const { customer, approver, acting, path } = await proposal(api);
        return {
          holds: ["select from accounts where account_id = $1 for no key update", customer.accountId],
          meanwhile: [
            "update organization_members set role = 'auditor' where account_id = $1",
            approver.accountId,
          ],
          call: () => acting.delete(path),
        };
      },
    },
    {
      title: "that another call ends",
      gets: NOT_FOUND,
      async prepare(api) {
        const { proposalId, acting, path } = await proposal(api);
        return {
          holds: ["select from connect_proposals where proposal_id = $1 for share", proposalId],
          meanwhile: ["delete from connect_proposals where proposal_id = $1", proposalId],
          call: () => acting.delete(path),
        };
      },
    },
  ],
  narrow_connected_product: [
    ending(
      "customer",
      (path) => ["PATCH", path, { body: { allowed_scopes: ["data:read"] } }],
      "404 not_found",
    ),
  ],
  end_connected_product: [ending("customer", (path) => ["DELETE", path], "200")],
  end_connected_products: [ending("customer", () => ["DELETE", "/v1/service/connected-products"], "200")],
  rotate_customer_key: [ending("publisher", (path) => ["POST", `${path}/rotate-key`], "404 not_found")],
  remove_customer: [ending("publisher", (path) => ["DELETE", path], "200")],
  oauth_token: [
    {
      title: "of a platform that another call removes",
      gets: ["400"],
      async prepare(api) {
        const { shop, call, check } = await decided(api);
        const own = { platform: { connectionId: shop.connectionId } } as Owned;
        return { holds: lockConnection(own), meanwhile: removeConnection(own), call, check };
      },
    },
    {
      title: "of a platform that another call unpublishes",
      gets: ["400"],
      async prepare(api) {
        const { shop, call, check } = await decided(api);
        return { ...unpublishing(shop.platformId), call, check };
      },
    },
    {
      title: "of a member whom another call removes",
      gets: ["400"],
      async prepare(api) {
        const { customer, approver, call, check } = await decided(api);
        return {
          holds: ["select from accounts where account_id = $1 for share", customer.accountId],
          meanwhile: ["delete from organization_members where account_id = $1", approver.accountId],
          ...{ call, check },
        };
      },
    },
    {
      title: "of an approver whose organization leaves connecting to owners",
      gets: ["400"],
      async prepare(api) {
        const { customer, call, check } = await decided(api);
        return {
          holds: ["select from accounts where account_id = $1 for share", customer.accountId],
          meanwhile: ["update accounts set connecting = 'owners' where account_id = $1", customer.accountId],
          ...{ call, check },
        };
      },
    },
  ],
};
