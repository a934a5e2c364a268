import { randomUUID } from "node:crypto";
import type { SeenAnswer } from "./openapi_document.ts";
import { type Scene, setScene } from "./scene.ts";
import type { WholeApi } from "./world.ts";

const ORGANIZATION = "/v1/service/organization";

/** A call by the owner of an organization with members, invitations and a platform. */
function ofOrganization(call: (scene: Scene, api: WholeApi) => Promise<SeenAnswer[]>) {
  return async (api: WholeApi) => call(await setScene(api, { organization: true }), api);
}

/** The code in the newest mail to an address. */
async function invitationTo({ client }: Scene["person"], email: string): Promise<string> {
  const { body } = await client.get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string }[];
  return /\b[0-9a-f]{64}\b/.exec(mails.find(({ to }) => to === email)?.text ?? "")?.[0] ?? "";
}

/** The ordinary calls of what organizations have. */
export const organizationCalls = {
  get_organization: ofOrganization(async ({ person }) => [await person.client.get(ORGANIZATION)]),
  change_organization: ofOrganization(async ({ person }) => [
    await person.client.call("PATCH", ORGANIZATION, { body: { four_eyes: true } }),
  ]),
  list_organization_members: ofOrganization(async ({ person }) => [
    await person.client.get(`${ORGANIZATION}/members`),
  ]),
  change_organization_member: ofOrganization(async ({ person, memberId }) => [
    await person.client.call("PATCH", `${ORGANIZATION}/members/${memberId}`, { body: { role: "owner" } }),
  ]),
  remove_organization_member: ofOrganization(async ({ person, memberId }) => [
    await person.client.call("DELETE", `${ORGANIZATION}/members/${memberId}`),
  ]),
  leave_organization: ofOrganization(async ({ person, memberId }) => {
    await person.client.call("PATCH", `${ORGANIZATION}/members/${memberId}`, { body: { role: "owner" } });
    return [await person.client.post(`${ORGANIZATION}/leave`)];
  }),
  invite_organization_member: ofOrganization(async ({ person }) => [
    await person.client.post(`${ORGANIZATION}/members`, {
      email: `${randomUUID()}@example.test`,
      role: "approver",
    }),
  ]),
  list_invitations: ofOrganization(async ({ person }) => [
    await person.client.get(`${ORGANIZATION}/invitations`),
  ]),
  withdraw_invitation: ofOrganization(async ({ person, invitationId }) => [
    await person.client.call("DELETE", `${ORGANIZATION}/invitations/${invitationId}`),
  ]),
  accept_invitation: ofOrganization(async ({ person }, api) => {
    const invited = await api.person();
    await person.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
    const token = await invitationTo(person, invited.email);
    return [await invited.client.post(`${ORGANIZATION}/invitations/accept`, { token })];
  }),
  list_organization_activity: ofOrganization(async ({ person }) => [
    await person.client.get(`${ORGANIZATION}/activity?limit=1&since=2001-01-01T00:00:00Z`),
  ]),
};
