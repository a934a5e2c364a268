import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import type { VaultSyncDeps } from "../platforms/sync_vault.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import type { Route } from "../route.ts";
import { type AuthorizeDeps, authorizeRoute, oauthMetadataRoute, pushRoute } from "./authorize_routes.ts";
import { createAuthenticateClient } from "./client_authentication.ts";
import { customerRoutes } from "./customer_routes.ts";
import { approveConnectRoute, connectRequestRoute, proposeConnectRoute } from "./decision_routes.ts";
import { productRoutes } from "./product_routes.ts";
import { proposalRoutes } from "./proposal_routes.ts";
import { rotateSigningSecretRoute } from "./signing_secret.ts";
import { tokenRoute } from "./token_route.ts";

/** Dependencies of the operations with which customers connect to products. */
export type ConnectDeps = AuthorizeDeps & RetireDeps & VaultSyncDeps & { actionLimits: ActionLimits };

/** Returns the operations with which customers connect to products. */
export function connectRoutes(deps: ConnectDeps): Route[] {
  const authenticateClient = createAuthenticateClient(deps);
  return [
    rotateSigningSecretRoute(deps),
    authorizeRoute(deps),
    pushRoute(deps, authenticateClient),
    tokenRoute(deps, authenticateClient),
    oauthMetadataRoute(deps),
    connectRequestRoute(deps),
    approveConnectRoute(deps),
    proposeConnectRoute(deps),
    ...proposalRoutes(deps),
    ...productRoutes(deps),
    ...customerRoutes(deps),
  ];
}
