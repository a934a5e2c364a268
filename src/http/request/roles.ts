import type { MemberRole, Route } from "../../route.ts";

/** What somebody may do: by their role in the account that they act for, and for the service itself. */
export type Powers = { role: MemberRole | null; serviceAdministrator: boolean };

/**
 * Whether somebody may call a route: owners everything of their organization, others what is declared for
 * them. What is for service administrators is in nobody's role.
 */
export function isForRole(
  { roles = [] }: Pick<Route, "roles">,
  { role, serviceAdministrator }: Powers,
): boolean {
  if (roles === "service_administrator") return serviceAdministrator;
  return roles === "person" || role === "owner" || (role !== null && roles.includes(role));
}
