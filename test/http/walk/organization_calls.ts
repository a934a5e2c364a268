import { randomUUID } from "node:crypto";
import type { TestApi } from "../../support/api.ts";
import type { SeenAnswer } from "./openapi_document.ts";
import type { Scene } from "./scene.ts";

const ORGANIZATION = "/v1/service/organization";

const DOMAINS = `${ORGANIZATION}/domains`;

async function publish({ person, platform, domain }: Scene) {
  await person.client.post(`${DOMAINS}/${domain}/verify`);
  return person.client.post(`/v1/service/platforms/${platform.platformId}/publish`, { domain });
}

async function invitationTo({ client }: Scene["person"], email: string): Promise<string> {
  const { body } = await client.get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string }[];
  const invitation = mails.find(({ to, text }) => to === email && text.includes("invites"));
  return /\b[0-9a-f]{64}\b/.exec(invitation?.text ?? "")?.[0] ?? "";
}

export const organizationCalls: Record<string, (api: TestApi, scene: Scene) => Promise<SeenAnswer[]>> = {
  get_organization: async (_, { person }) => [await person.client.get(ORGANIZATION)],
  change_organization: async (_, { person }) => [
    await person.client.call("PATCH", ORGANIZATION, { body: { four_eyes: true, connecting: "owners" } }),
  ],
  list_organization_members: async (_, { person }) => [await person.client.get(`${ORGANIZATION}/members`)],
  change_organization_member: async (_, { person, memberId }) => [
    await person.client.call("PATCH", `${ORGANIZATION}/members/${memberId}`, { body: { role: "owner" } }),
  ],
  remove_organization_member: async (_, { person, memberId }) => [
    await person.client.call("DELETE", `${ORGANIZATION}/members/${memberId}`),
  ],
  leave_organization: async (_, { person, memberId }) => {
    await person.client.call("PATCH", `${ORGANIZATION}/members/${memberId}`, { body: { role: "owner" } });
    return [await person.client.post(`${ORGANIZATION}/leave`)];
  },
  invite_organization_member: async (_, { person }) => [
    await person.client.post(`${ORGANIZATION}/members`, {
      email: `${randomUUID()}@example.test`,
      role: "approver",
    }),
  ],
  list_invitations: async (_, { person }) => [await person.client.get(`${ORGANIZATION}/invitations`)],
  withdraw_invitation: async (_, { person, invitationId }) => [
    await person.client.call("DELETE", `${ORGANIZATION}/invitations/${invitationId}`),
  ],
  read_invitation: async (api, { person }) => {
    const invited = await api.person();
    await person.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
    const token = await invitationTo(person, invited.email);
    return [await invited.client.post(`${ORGANIZATION}/invitations/read`, { token })];
  },
  accept_invitation: async (api, { person }) => {
    const invited = await api.person();
    await person.client.post(`${ORGANIZATION}/members`, { email: invited.email, role: "approver" });
    const token = await invitationTo(person, invited.email);
    return [await invited.client.post(`${ORGANIZATION}/invitations/accept`, { token })];
  },
  add_organization_domain: async (_, { person }) => [
    await person.client.post(DOMAINS, { domain: "shop.example.com" }),
  ],
  list_organization_domains: async (_, { person }) => [await person.client.get(DOMAINS)],
  verify_organization_domain: async (_, { person, domain }) => [
    await person.client.post(`${DOMAINS}/${domain}/verify`),
  ],
  remove_organization_domain: async (_, { person, domain }) => [
    await person.client.call("DELETE", `${DOMAINS}/${domain}`),
  ],
  publish_platform: async (_, scene) => [await publish(scene)],
  unpublish_platform: async (_, scene) => {
    await publish(scene);
    const { platformId } = scene.platform;
    return [await scene.person.client.post(`/v1/service/platforms/${platformId}/unpublish`)];
  },
  get_published_platform: async (api, scene) => {
    await publish(scene);
    return [await api.client().get(`/v1/registry/platforms/${scene.platform.platformId}`)];
  },
  list_organization_activity: async (_, { person }) => [
    await person.client.get(`${ORGANIZATION}/activity?limit=1&since=2001-01-01T00:00:00Z`),
  ],
};
