import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
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

/** Dependencies of the operations on deliveries. */
export type DeliveryDeps = TestDeps & RetireDeps & { actionLimits: ActionLimits };

/** Returns the operations by which members of an account manage deliveries to callback URLs. */
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
