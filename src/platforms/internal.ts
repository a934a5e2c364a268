import type { Route } from "../route.ts";
import { putAgentRoute, removeAgentRoute } from "./internal_agents.ts";
import {
  acknowledgeRoute,
  putPlatformRoute,
  removePlatformRoute,
  rotateCredentialsRoute,
} from "./internal_platforms.ts";
import type { PlatformDeps } from "./routes.ts";

/** The operator's calls about platforms and agents. They keep the rules of the calls that people make. */
export function internalPlatformRoutes(deps: PlatformDeps): Route[] {
  return [
    putPlatformRoute(deps),
    acknowledgeRoute(deps),
    rotateCredentialsRoute(deps),
    removePlatformRoute(deps),
    putAgentRoute(deps),
    removeAgentRoute(deps),
  ];
}
