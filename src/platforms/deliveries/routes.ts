import type { Route } from "../../route.ts";
import { pauseCallbackRoute, resumeCallbackRoute, testCallbackRoute } from "./callback_routes.ts";
import { getCallbackRoute } from "./callback_view.ts";
import { getDeliveryRoute, listDeliveriesRoute, resendDeliveryRoute } from "./delivery_routes.ts";
import { getRecoveryRoute, listRecoveriesRoute, recoverDeliveriesRoute } from "./recovery_routes.ts";
import type { TestDeps } from "./test_callback.ts";

/** Calls about what is sent to callback URLs, by the account's owner. */
export function deliveryRoutes(deps: TestDeps): Route[] {
  return [
    getCallbackRoute(deps),
    pauseCallbackRoute(deps),
    resumeCallbackRoute(deps),
    listDeliveriesRoute(deps),
    getDeliveryRoute(deps),
    resendDeliveryRoute(deps),
    recoverDeliveriesRoute(deps),
    listRecoveriesRoute(deps),
    getRecoveryRoute(deps),
    testCallbackRoute(deps),
  ];
}
