import { randomUUID } from "node:crypto";
import type { SeenAnswer } from "./openapi_document.ts";
import { type Scene, setScene } from "./scene.ts";
import type { WholeApi } from "./world.ts";

const ORGANIZATION = "/v1/service/organization";

const DOMAINS = `${ORGANIZATION}/domains`;

async function publish({ person, platform, domain }: Scene) {
  await person.client.post(`${DOMAINS}/${domain}/verify`);
  return person.client.post(`/v1/service/platforms/${platform.platformId}/publish`, { domain });
}

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
  read_invitation: ofOrganization(async ({ person }, api) => {
    const invited = await api.person();
    await person.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
    const token = await invitationTo(person, invited.email);
    return [await invited.client.post(`${ORGANIZATION}/invitations/read`, { token })];
  }),
  accept_invitation: ofOrganization(async ({ person }, api) => {
    const invited = await api.person();
    await person.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
    const token = await invitationTo(person, invited.email);
    return [await invited.client.post(`${ORGANIZATION}/invitations/accept`, { token })];
  }),
  add_organization_domain: ofOrganization(async ({ person }) => [
    await person.client.post(DOMAINS, { domain: "shop.example.com" }),
  ]),
  list_organization_domains: ofOrganization(async ({ person }) => [await person.client.get(DOMAINS)]),
  verify_organization_domain: ofOrganization(async ({ person, domain }) => [
    await person.client.post(`${DOMAINS}/${domain}/verify`),
  ]),
  remove_organization_domain: ofOrganization(async ({ person, domain }) => [
    await person.client.call("DELETE", `${DOMAINS}/${domain}`),
  ]),
  publish_platform: ofOrganization(async (scene) => [await publish(scene)]),
  unpublish_platform: ofOrganization(async (scene) => {
    await publish(scene);
    const { platformId } = scene.platform;
    return [await scene.person.client.post(`/v1/service/platforms/${platformId}/unpublish`)];
  }),
  get_published_platform: ofOrganization(async (scene, api) => {
    await publish(scene);
    return [await api.client().get(`/v1/registry/platforms/${scene.platform.platformId}`)];
  }),
  list_organization_activity: ofOrganization(async ({ person }) => [
    await person.client.get(`${ORGANIZATION}/activity?limit=1&since=2001-01-01T00:00:00Z`),
  ]),
};
