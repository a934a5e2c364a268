import { expect } from "vitest";
import { connectScene } from "../connect/scene.ts";
import type { TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import type { RaceRow } from "./races.ts";

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

/** Races of the exchange of a customer's code. Its refusals have no code of this service. */
export const connectRaces: Record<string, RaceRow[]> = {
  oauth_token: [
    {
      title: "of a platform that another call unpublishes",
      gets: ["400"],
      async prepare(api) {
        const { shop, call, check } = await decided(api);
        return {
          holds: ["select from platforms where platform_id = $1 for no key update", shop.platformId],
          meanwhile: [
            "update platforms set publish_state = 'draft', published_domain = null where platform_id = $1",
            shop.platformId,
          ],
          ...{ call, check },
        };
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
  ],
};
