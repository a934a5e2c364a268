import { type AccountsDeps, accountsRoutes } from "../accounts/routes.ts";
import { type ChannelDeps, channelRoutes } from "../channels/routes.ts";
import { approverRoutes } from "../clusters/approver_routes.ts";
import { namespaceRoutes } from "../clusters/namespace_routes.ts";
import { type ConnectDeps, connectRoutes } from "../connect/routes.ts";
import type { DecideDeps } from "../delegations/declared/decide_in_cluster.ts";
import { operatorDelegationRoutes } from "../delegations/declared/operator_routes.ts";
import { type DelegationDeps, delegationRoutes } from "../delegations/routes.ts";
import { type DeliveryDeps, deliveryRoutes } from "../deliveries/routes.ts";
import { auditRoutes } from "../history/routes.ts";
import { type InstallationDeps, installationRoutes } from "../installation/routes.ts";
import { type OrganizationDeps, organizationsRoutes } from "../organizations/routes.ts";
import { operatorPlatformRoutes } from "../platforms/declared/operator_routes.ts";
import { type PlatformDeps, platformRoutes } from "../platforms/routes.ts";
import { type ProofDeps, proofRoutes } from "../proofs/routes.ts";
import type { Route } from "../route.ts";

/** Dependencies of all operations of the API. */
export type ApiRoutesDeps = AccountsDeps &
  OrganizationDeps &
  PlatformDeps &
  ConnectDeps &
  DeliveryDeps &
  ChannelDeps &
  DelegationDeps &
  DecideDeps &
  ProofDeps &
  InstallationDeps;

/** Returns all operations of the API, including the operator's, for routing, documentation and tests. */
export function apiRoutes(deps: ApiRoutesDeps): Route[] {
  return [
    ...accountsRoutes(deps),
    ...organizationsRoutes(deps),
    ...platformRoutes(deps),
    ...connectRoutes(deps),
    ...deliveryRoutes(deps),
    ...channelRoutes(deps),
    ...namespaceRoutes(deps),
    ...approverRoutes(deps),
    ...delegationRoutes(deps),
    ...proofRoutes(deps),
    ...auditRoutes(deps),
    ...installationRoutes(deps),
    ...operatorPlatformRoutes(deps),
    ...operatorDelegationRoutes(deps),
  ];
}
