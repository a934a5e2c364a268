import type { Route } from "../route.ts";
import { activityRoute } from "./activity_route.ts";
import { type DomainDeps, domainRoutes } from "./domains/domain_routes.ts";
import { invitationRoutes } from "./invitations/invitation_routes.ts";
import type { InviteDeps } from "./invitations/invite.ts";
import { memberRoutes } from "./members/member_routes.ts";
import { organizationRoutes } from "./organization_route.ts";
import { publishRoutes } from "./publishing/publish_routes.ts";

/** What the calls about organizations work with. */
export type OrganizationDeps = InviteDeps & DomainDeps;

/** The calls about the organization that is acted for. */
export function organizationsRoutes(deps: OrganizationDeps): Route[] {
  return [
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...invitationRoutes(deps),
    ...domainRoutes(deps),
    ...publishRoutes(deps),
    activityRoute(deps),
  ];
}
