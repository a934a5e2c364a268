import type { Database } from "../db/database.ts";
import type { Route } from "../route.ts";
import { historyRoute } from "./history_route.ts";
import { receiptRoute } from "./receipt_route.ts";

/** The calls of specification §4 "Audit". */
export function auditRoutes(deps: { db: Database }): Route[] {
  return [historyRoute(deps), receiptRoute(deps)];
}
