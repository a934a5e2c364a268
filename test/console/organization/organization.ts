import type { Person, TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/** Text from untrusted parties on the pages of an organization. */
export type OrganizationTexts = { organization: string; first: string; last: string };

const ORDINARY: OrganizationTexts = { organization: "Analytical Engines", first: "Ada", last: "Lovelace" };

/**
 * Returns an owner's browser. The organization has two owners, an approver, an invitation and two domains.
 */
export async function organizationOf(
  api: TestApi,
  texts: Partial<OrganizationTexts> = {},
): Promise<Seen & { owner: Person; approver: Person }> {
  const { organization, first, last } = { ...ORDINARY, ...texts };
  const owner = await api.person({ organization_name: "Engines" });
  const id = owner.accountId;
  await api.db("accounts").where({ account_id: id }).update({ organization_name: organization });
  await addMember(api, id, "owner");
  const approver = await addMember(api, id, "approver");
  const names = { first_name: first, last_name: last };
  await api.db("accounts").where({ account_id: approver.accountId }).update(names);
  const post = async (path: string, body: unknown) =>
    (await owner.client.post(`/v1/service/organization/${path}`, body)).body;
  const email = `${id.slice(-12)}@example.test`;
  const { invitation_id } = await post("members", { email, role: "auditor" });
  const domain = `d${id}.example.com`;
  await post("domains", { domain });
  await post("domains", { domain: `shop.${domain}` });
  await post(`domains/${domain}/verify`, undefined);
  await owner.client.post("/v1/service/cluster-approvers", {
    cluster: "c1",
    username: "ann@example.test",
    member_account_id: approver.accountId,
  });
  const ids = { organization: id, member: approver.accountId, invitation: String(invitation_id), domain };
  return { ...browserOf(api, owner.client), ids, owner, approver };
}
