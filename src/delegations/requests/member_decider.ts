import { ApiError } from "../../errors.ts";
import type { SessionCaller } from "../../route.ts";
import type { MemberDecider } from "./decide_request.ts";

/** Roles that approve. */
const APPROVING = ["owner", "approver"];

/**
 * The signed-in person as who approves. In an organization their role is looked up again when the approval is
 * stored, so that nobody who was removed meanwhile approves, and where it wants four eyes who asked is held
 * against who approves.
 */
export function memberDecider({ accountId, organization, person }: SessionCaller): MemberDecider {
  const decider = { accountId: person.accountId };
  if (!organization) return decider;
  return {
    ...decider,
    async check(tx, { requested_by }) {
      const account = await tx("accounts")
        .where({ account_id: accountId })
        .forShare()
        .first("own_role", "four_eyes");
      const member = await tx("organization_members")
        .where({ organization_id: accountId, account_id: person.accountId })
        .forShare()
        .first("role");
      const role = person.accountId === accountId ? account?.own_role : member?.role;
      if (role == null || !APPROVING.includes(role)) throw new ApiError("forbidden");
      if (account?.four_eyes && (requested_by === null || requested_by === person.accountId)) {
        throw new ApiError("four_eyes_required");
      }
    },
  };
}
