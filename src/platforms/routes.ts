import type { AddressPolicy } from "../events/webhooks/callbacks/addresses.ts";
import type { Route } from "../route.ts";
import { acceptedPrincipalRoutes } from "./accepted_principals/routes.ts";
import { adoptionRoutes } from "./adoptions/routes.ts";
import { getAccountAgentRoute, listAccountAgentsRoute } from "./agents/account_agents_routes.ts";
import { createAgentRoute, deleteAgentRoute, getAgentRoute, listAgentsRoute } from "./agents/agent_routes.ts";
import type { CreateAgentDeps } from "./agents/create_agent.ts";
import type { RetireDeps } from "./api_keys/rotate_key.ts";
import { endFormerKeysRoute, getConnectionRoute } from "./connections/connection_key_routes.ts";
import {
  changeConnectionRoute,
  removeConnectionRoute,
  rotateKeyRoute,
  setCallbackRoute,
} from "./connections/connection_routes.ts";
import { deliveryRoutes } from "./deliveries/routes.ts";
import type { TestDeps } from "./deliveries/test_callback.ts";
import { approverRoutes } from "./namespaces/approver_routes.ts";
import { namespaceRoutes } from "./namespaces/routes.ts";
import { changePlatformRoute, getPlatformRoute, listPlatformsRoute } from "./platform_routes.ts";
import { registrationRoutes } from "./registration_routes.ts";
import { promoteWebhookSecretRoute, rotateWebhookSecretRoute } from "./webhooks/webhook_secret_routes.ts";

/** What the calls about platforms, connections and agents work with. */
export type PlatformDeps = CreateAgentDeps & RetireDeps & TestDeps & { callbacks: AddressPolicy };

/** The calls of specification §4 "Platform and agents" and those that keep them. */
export function platformRoutes(deps: PlatformDeps): Route[] {
  return [
    ...registrationRoutes(deps),
    listPlatformsRoute(deps),
    getPlatformRoute(deps),
    changePlatformRoute(deps),
    ...acceptedPrincipalRoutes(deps),
    ...namespaceRoutes(deps),
    ...approverRoutes(deps),
    ...adoptionRoutes(deps),
    getConnectionRoute(deps),
    changeConnectionRoute(deps),
    setCallbackRoute(deps),
    ...deliveryRoutes(deps),
    rotateKeyRoute(deps),
    endFormerKeysRoute(deps),
    rotateWebhookSecretRoute(deps),
    promoteWebhookSecretRoute(deps),
    removeConnectionRoute(deps),
    createAgentRoute(deps),
    listAccountAgentsRoute(deps),
    getAccountAgentRoute(deps),
    listAgentsRoute(deps),
    getAgentRoute(deps),
    deleteAgentRoute(deps),
  ];
}
