import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { RequestRate } from "../rates/request_rate.ts";
import type { Route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import {
  getCertificateRoute,
  listCertificatesRoute,
  revokeRoute,
} from "./certificates/certificate_routes.ts";
import { certificateUseRoute } from "./certificates/certificate_use.ts";
import { certificateChainRoute } from "./certificates/check_certificate_route.ts";
import type { SignDeps } from "./requests/approve_request.ts";
import { approveRoute, denyRoute } from "./requests/decision_routes.ts";
import { previewRoute } from "./requests/preview_route.ts";
import {
  getRequestRoute,
  keyRequestRoute,
  listRequestsRoute,
  selfRequestRoute,
} from "./requests/request_routes.ts";
import { type RevocationListDeps, revocationsRoute } from "./revocation_lists/revocation_list.ts";
import { scopesRoute } from "./scopes_route.ts";

/** Dependencies of the delegation routes. */
export type DelegationDeps = SignDeps &
  RevocationListDeps & {
    db: Database;
    secretBox: SecretBox;
    clock: Clock;
    requestRate: RequestRate;
    baseUrl: string;
  };

/**
 * Returns the routes in specification §4 "Delegation". The request routes come before the certificate routes,
 * so that `requests` is not read as a certificate id.
 */
export function delegationRoutes(deps: DelegationDeps): Route[] {
  return [
    scopesRoute(),
    selfRequestRoute(deps),
    keyRequestRoute(deps),
    listRequestsRoute(deps),
    getRequestRoute(deps),
    previewRoute(deps),
    approveRoute(deps),
    denyRoute(deps),
    listCertificatesRoute(deps),
    getCertificateRoute(deps),
    certificateChainRoute(deps),
    certificateUseRoute(deps),
    revokeRoute(deps),
    revocationsRoute(deps),
  ];
}
