import type { MemberRole } from "../route.ts";

/** Row types of the tables that only organizations use. */
export type OrganizationMemberRow = {
  organization_id: string;
  account_id: string;
  role: MemberRole;
  joined_at: Date;
};

export type OrganizationInvitationRow = {
  invitation_id: string;
  organization_id: string;
  email: string;
  role: MemberRole;
  token_hash: Buffer;
  /** The account of the owner who sent the invitation. */
  invited_by: string;
  created_at: Date;
  expires_at: Date;
};

type Actor = { actor_account_id: string; actor_email: string; actor_role: MemberRole };
/** The other party of a connection acted. Its people stay unknown. */
type OtherParty = { [Column in keyof Actor]: null };

export type OrganizationActivityRow = (Actor | OtherParty) & {
  organization_id: string;
  activity_id: string;
  occurred_at: Date;
  operation: string;
  target: Record<string, string | boolean>;
  status: "begun" | "done" | "refused";
  error_code: string | null;
};

export type OrganizationDomainRow = {
  organization_id: string;
  domain: string;
  token: string;
  created_at: Date;
  verified_at: Date | null;
  checked_at: Date | null;
  failing_since: Date | null;
};
