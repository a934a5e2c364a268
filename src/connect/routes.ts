import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import type { Route } from "../route.ts";
import { rotateSigningSecretRoute } from "./signing_secret.ts";

/** Dependencies of the operations with which customers connect to products. */
export type ConnectDeps = RetireDeps & { actionLimits: ActionLimits };

/** Returns the operations with which customers connect to products. */
export function connectRoutes(deps: ConnectDeps): Route[] {
  return [rotateSigningSecretRoute(deps)];
}
