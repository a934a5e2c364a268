import type { ActionLimits } from "../rates/action_limits.ts";
import type { ApiKeyRates } from "../rates/api_key_rates.ts";
import type { Route } from "../route.ts";
import type { AddressPolicy } from "../webhooks/callback_address.ts";
import { acceptedPrincipalRoutes } from "./accepted_principal_routes.ts";
import { getAccountAgentRoute, listAccountAgentsRoute } from "./agents/account_agents_routes.ts";
import {
  createAccountAgentRoute,
  createAgentRoute,
  deleteAgentRoute,
  getAgentRoute,
  listAgentsRoute,
} from "./agents/agent_routes.ts";
import type { CreateAgentDeps } from "./agents/agents.ts";
import { keyRoutes } from "./api_keys/key_routes.ts";
import type { RetireDeps } from "./api_keys/rotate_key.ts";
import { endFormerKeysRoute, getConnectionRoute } from "./connections/connection_key_routes.ts";
import {
  changeConnectionRoute,
  removeConnectionRoute,
  rotateKeyRoute,
  setCallbackRoute,
} from "./connections/connection_routes.ts";
import { getOwnConnectionRoute } from "./connections/own_connection_route.ts";
import { adoptionRoutes } from "./declared/adoption_routes.ts";
import {
  changePlatformRoute,
  getPlatformRoute,
  listPlatformsRoute,
  registrationRoutes,
} from "./platform_routes.ts";

/** Dependencies of the routes for platforms, connections and agents. */
export type PlatformDeps = CreateAgentDeps &
  RetireDeps & { callbacks: AddressPolicy; actionLimits: ActionLimits; keyRates: ApiKeyRates };

/** Returns the routes that manage platforms and agents: those of specification §4, and others. */
export function platformRoutes(deps: PlatformDeps): Route[] {
  return [
    ...registrationRoutes(deps),
    listPlatformsRoute(deps),
    getPlatformRoute(deps),
    changePlatformRoute(deps),
    ...acceptedPrincipalRoutes(deps),
    ...adoptionRoutes(deps),
    getConnectionRoute(deps),
    getOwnConnectionRoute(deps),
    changeConnectionRoute(deps),
    setCallbackRoute(deps),
    rotateKeyRoute(deps),
    endFormerKeysRoute(deps),
    removeConnectionRoute(deps),
    ...keyRoutes(deps),
    createAgentRoute(deps),
    createAccountAgentRoute(deps),
    listAccountAgentsRoute(deps),
    getAccountAgentRoute(deps),
    listAgentsRoute(deps),
    getAgentRoute(deps),
    deleteAgentRoute(deps),
  ];
}
