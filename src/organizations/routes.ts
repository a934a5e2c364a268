import type { Database } from "../db/database.ts";
import type { Route } from "../route.ts";
import { activityRoute } from "./activity_route.ts";
import { memberRoutes } from "./members/member_routes.ts";
import { organizationRoutes } from "./organization_route.ts";

/** What the calls about organizations work with. */
export type OrganizationDeps = { db: Database };

/** The calls about the organization that is acted for. */
export function organizationsRoutes(deps: OrganizationDeps): Route[] {
  return [...organizationRoutes(deps), ...memberRoutes(deps), activityRoute(deps)];
}
