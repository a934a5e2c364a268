import { type AccountsDeps, accountsRoutes } from "./accounts/routes.ts";
import { auditRoutes } from "./audit/routes.ts";
import { operatorDelegationRoutes } from "./delegations/declared/operator_routes.ts";
import { type DelegationDeps, delegationRoutes } from "./delegations/routes.ts";
import { operatorPlatformRoutes } from "./platforms/declared/operator_routes.ts";
import { type PlatformDeps, platformRoutes } from "./platforms/routes.ts";
import { type ProofDeps, proofRoutes } from "./proofs/routes.ts";
import type { Route } from "./route.ts";

/** What the operations of the API are made with. */
export type ApiRoutesDeps = AccountsDeps & PlatformDeps & DelegationDeps & ProofDeps;

/**
 * Every operation of the API, the operator's included: what is mounted, documented and tested is this list.
 */
export function apiRoutes(deps: ApiRoutesDeps): Route[] {
  return [
    ...accountsRoutes(deps),
    ...platformRoutes(deps),
    ...delegationRoutes(deps),
    ...proofRoutes(deps),
    ...auditRoutes(deps),
    ...operatorPlatformRoutes(deps),
    ...operatorDelegationRoutes(deps),
  ];
}
