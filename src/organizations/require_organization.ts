import { ApiError } from "../errors.ts";
import type { SessionCaller } from "../route.ts";

/** Throws `not_available` for a call that is not made for an organization. */
export function requireOrganization({ organization }: SessionCaller): void {
  if (!organization) throw new ApiError("not_available", "Only for accounts of type organization");
}
