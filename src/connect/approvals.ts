import { lockRole, mayConnect, mayPropose } from "../accounts/member_role.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { ConnectCodeRow, ConnectProposalRow, Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { checkCeiling } from "../input/ceiling.ts";
import { allowedScopes } from "../platforms/platform_record.ts";
import { coversScopes } from "../protocol/documents/scopes.ts";
import { isSameWords } from "./consent.ts";

/** An approval of a product that a member gave in advance. */
export type Approval = Extract<ConnectProposalRow, { consent: Consent }>;

/** Returns the approval of a product for an account. Whether it is still in force is another check. */
export async function findApproval(
  db: Database | Transaction,
  { accountId, platformId, now }: { accountId: string; platformId: string; now: Date },
): Promise<Approval | undefined> {
  const found = await db("connect_proposals")
    .where({ account_id: accountId, platform_id: platformId })
    .whereNotNull("approved_at")
    .andWhere("expires_at", ">", now)
    .first();
  return found as Approval | undefined;
}

/** Returns whether a person may use an approval at a redirect URI, for scopes that they read about. */
export function coversRequest(
  approval: Pick<ConnectProposalRow, "redirect_uri" | "consent">,
  { redirectUri, consent, scopes }: { redirectUri: string; consent: Consent; scopes: readonly string[] },
): boolean {
  const { consent: approved, redirect_uri } = approval;
  return approved !== null && redirect_uri === redirectUri && isSameWords(approved, consent, scopes);
}

type Held = Awaited<ReturnType<typeof lockRole>>;

/**
 * Returns the approval that a code names, and locks it. Throws `forbidden` unless the member may propose
 * products and the approval is in force. It is at most 30 days old, and its approver may still connect. It is
 * for the same account, platform, redirect URI and words. Throws `ceiling_exceeded` for other scopes.
 */
export async function requireApproval(
  tx: Transaction,
  code: ConnectCodeRow,
  held: Held,
  now: Date,
): Promise<Approval> {
  const { proposal_id, customer_account_id: account_id, platform_id, redirect_uri, consent, scopes } = code;
  if (proposal_id === null || !mayPropose(held)) throw new ApiError("forbidden");
  const found = await tx("connect_proposals")
    .where({ proposal_id, account_id, platform_id })
    .whereNotNull("approved_at")
    .andWhere("expires_at", ">", now)
    .forShare()
    .first();
  const approval = found as Approval | undefined;
  if (approval === undefined) throw ended();
  if (!mayConnect(await lockRole(tx, account_id, approval.approved_by))) throw ended();
  if (!coversRequest(approval, { redirectUri: redirect_uri, consent, scopes })) {
    throw new ApiError("forbidden", "The product has changed since it was approved; propose it again");
  }
  checkCeiling(approval.scopes, scopes);
  return approval;
}

/**
 * Throws `forbidden` if a member with an approval chose fewer scopes than the account's connection with the
 * product has. Such a member cannot narrow connections in other ways either.
 */
export async function refuseFewer(
  tx: Transaction,
  { platform_id: platformId, customer_account_id: accountId, scopes }: ConnectCodeRow,
): Promise<void> {
  const live = await findLiveConnection(tx, { accountId, platformId });
  if (live !== undefined && coversScopes(scopes, live.heldScopes).length > 0) throw fewer();
}

/** A customer's live connection. `heldScopes`: what its agents may be lent now. */
export type LiveConnection = { shownName: string; heldScopes: string[] };

/** Returns the account's live connection with a product. */
export async function findLiveConnection(
  db: Database | Transaction,
  { accountId, platformId }: { accountId: string; platformId: string },
): Promise<LiveConnection | undefined> {
  const live = await db("connections as c")
    .join("platforms as p", "p.platform_id", "c.product_id")
    .where({ "c.product_id": platformId, "c.customer_account_id": accountId, "c.removed_at": null })
    .first("c.customer_name", "c.allowed_scopes", "p.default_allowed_scopes");
  return (
    live && {
      shownName: live.customer_name ?? "",
      heldScopes: allowedScopes(live.allowed_scopes, live.default_allowed_scopes),
    }
  );
}

/** The refusal of a member with an approval who would take scopes away from a connection. */
export function fewer(): ApiError {
  return new ApiError(
    "forbidden",
    "Only members who may connect products can take scopes from the connection",
  );
}

function ended(): ApiError {
  return new ApiError("forbidden", "The product is not approved, or no longer; propose it");
}
