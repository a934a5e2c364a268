import type { Database } from "../db/database.ts";
import type { Route } from "../route.ts";
import type { Installation } from "./installation.ts";
import { partRoute } from "./part_route.ts";
import { suspendedRoute } from "./suspended_route.ts";

/** What the operations for administrators of the service are made with. */
export type InstallationDeps = { installation: Installation; db: Database };

/** Operations for those who look after the service: how its parts do, never what tenants have. */
export function installationRoutes({ installation, db }: InstallationDeps): Route[] {
  return [partRoute({ installation }), suspendedRoute({ database: db })];
}
