import { claimLeadershipRoute } from "../../clusters/leadership.ts";
import type { Route } from "../../route.ts";
import type { PlatformDeps } from "../routes.ts";
import { putAgentRoute, removeAgentRoute } from "./operator_agent_routes.ts";
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
export function operatorPlatformRoutes(deps: PlatformDeps): Route[] {
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
