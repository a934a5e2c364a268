import { randomUUID } from "node:crypto";
import { askForBinding } from "../../../src/clusters/namespace_binding.ts";
import { apiKeyPrefix } from "../../../src/platforms/api_keys/api_key.ts";
import { declaration, declarations, newUid } from "../../platforms/declarations.ts";
import type { Person, TestApi } from "../../support/api.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { createAgent, registerPlatform } from "../../support/platform_world.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/** Text from untrusted parties on pages about platforms. */
export type PlatformTexts = { name: string; description: string; verifier: string; username: string };

const ORDINARY: PlatformTexts = {
  name: "Shop",
  description: "Sells books and takes orders by voice.",
  verifier: "shop.example.com",
  username: "jane@example.com",
};

export const ORGANIZATION_PLATFORMS = "/v1/service/platforms";

/** Creates an owner of an organization with two platforms, one of them declared by a cluster object. */
export async function platformViewer(
  api: TestApi,
  texts: Partial<PlatformTexts> = {},
): Promise<Seen & { person: Person }> {
  const { name, description, verifier, username } = { ...ORDINARY, ...texts };
  const person = await api.person({ organization_name: "Analytical Engines" });
  const { client, accountId } = person;
  const platform = await registerPlatform(person, { name, description }, ORGANIZATION_PLATFORMS);
  const { platformId, connectionId } = platform;
  const agentId = await createAgent(api.client(), platform);
  await createKey(api, platform, { role: "agent", agent_id: agentId });
  await client.call("PATCH", `/v1/service/connections/${connectionId}`, { body: { verifier_id: verifier } });
  await client.post(`/v1/service/connections/${connectionId}/rotate-key`, { grace_seconds: 3_600 });
  const { humanId } = await api.person();
  await client.call("PUT", `/v1/service/platforms/${platformId}/accepted-principals/${humanId}`, {
    body: { scopes: ["data:read"], accepted_until: "2099-01-01T00:00:00Z" },
  });
  const object = { cluster: "c1", namespace: "default", name: "shop" };
  await client.call("PUT", `/v1/service/platforms/${platformId}/adoption`, { body: object });
  await client.post("/v1/service/cluster-approvers", { cluster: "c1", username });
  await askForBinding(api, accountId, { clusterId: "c1", namespace: "team-a" });
  await verifiedDomain(api, accountId);
  // The service would store this use up to a minute later, and the page would change between two views.
  const use = { key_prefix: apiKeyPrefix(platform.apiKey) ?? "", used_at: api.clock.now() };
  await api.db("key_uses").insert(use).onConflict("key_prefix").merge();
  const declared = await declarations(api).put(newUid(), declaration(person, { name: "Warehouse" }));
  return {
    ...browserOf(api, client),
    person,
    ids: {
      account: accountId,
      platform: platformId,
      connection: connectionId,
      declared: String(declared.body.platform_id),
      declaredConnection: String(declared.body.connection_id),
    },
  };
}

async function verifiedDomain(api: TestApi, organizationId: string): Promise<void> {
  const now = api.clock.now();
  await api.db("organization_domains").insert({
    organization_id: organizationId,
    domain: `shop-${randomUUID().slice(0, 8)}.example.com`,
    token: "0".repeat(32),
    created_at: now,
    verified_at: now,
    checked_at: now,
  });
}
