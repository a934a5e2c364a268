import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import type { Route } from "../route.ts";
import {
  pauseCallbackRoute,
  resumeCallbackRoute,
  type TestDeps,
  testCallbackRoute,
} from "./callback_routes.ts";
import { getCallbackRoute } from "./callback_view.ts";
import { getDeliveryRoute, listDeliveriesRoute, resendDeliveryRoute } from "./delivery_routes.ts";
import { getRecoveryRoute, listRecoveriesRoute, recoverDeliveriesRoute } from "./recovery_routes.ts";
import { promoteWebhookSecretRoute, rotateWebhookSecretRoute } from "./webhook_secret_rotation.ts";

/** What the calls about deliveries work with. */
export type DeliveryDeps = TestDeps & RetireDeps;

/** Calls about what is sent to callback URLs, by the account's owner. */
export function deliveryRoutes(deps: DeliveryDeps): Route[] {
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
    rotateWebhookSecretRoute(deps),
    promoteWebhookSecretRoute(deps),
  ];
}
