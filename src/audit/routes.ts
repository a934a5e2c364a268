import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { Route } from "../route.ts";
import { dailyCountsRoute } from "./daily_counts_route.ts";
import { eventRoute } from "./event_route.ts";
import { exportRoute } from "./export_route.ts";
import { historyRoute } from "./history_route.ts";
import { receiptCheckRoute } from "./receipt_check_route.ts";
import { receiptRoute } from "./receipt_route.ts";

/** The calls of specification §4 "Audit". */
export function auditRoutes(deps: { db: Database; clock: Clock }): Route[] {
  return [
    historyRoute(deps),
    exportRoute(deps),
    dailyCountsRoute(deps),
    eventRoute(deps),
    receiptRoute(deps),
    receiptCheckRoute(deps),
  ];
}
