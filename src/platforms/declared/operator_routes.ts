import type { Route } from "../../route.ts";
import type { PlatformDeps } from "../routes.ts";
import { putAgentRoute, removeAgentRoute } from "./operator_agent_routes.ts";
import { claimLeadershipRoute } from "./operator_leadership_route.ts";
import {
  acknowledgeRoute,
  putPlatformRoute,
  removePlatformRoute,
  rotateCredentialsRoute,
} from "./operator_platform_routes.ts";

/**
 * The operator's calls about its leadership, platforms and agents. They keep the rules of the calls that
 * people make.
 */
export function operatorPlatformRoutes(deps: Omit<PlatformDeps, "sendingRates">): Route[] {
  return [
    claimLeadershipRoute(deps),
    putPlatformRoute(deps),
    acknowledgeRoute(deps),
    rotateCredentialsRoute(deps),
    removePlatformRoute(deps),
    putAgentRoute(deps),
    removeAgentRoute(deps),
  ];
}
