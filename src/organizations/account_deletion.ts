import { z } from "zod";
import { spendCodes, storeCodes, tryCodes } from "../accounts/address/account_codes.ts";
import { deletionMail } from "../accounts/address/address_mails.ts";
import { accountCode, sendOrRefuse } from "../accounts/address/change_address.ts";
import { refuseRecentlyChanged } from "../accounts/former_addresses.ts";
import { recordCreditedAddress } from "../accounts/ledger/amounts.ts";
import type { Mailer } from "../accounts/mail/smtp.ts";
import { clearedCookies, lockFamilies } from "../accounts/sessions/sessions.ts";
import type { CodeHashes } from "../accounts/sign_in/codes.ts";
import type { Clock } from "../clock.ts";
import type { Transaction } from "../db/database.ts";
import type { AccountCodeRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import { forgetCustomers } from "../platforms/connections/customer_connections.ts";
import { lockConnections, removeConnections } from "../platforms/connections/end_connections.ts";
import { syncVault, type VaultSyncDeps } from "../platforms/sync_vault.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import type { ClientRates } from "../rates/client_rates.ts";
import { type Route, route } from "../route.ts";
import { writeAct } from "./activity.ts";
import { changeMemberIn, listMembers, lockMembers, type Member } from "./members.ts";
import { lockSetups } from "./setups.ts";

/** Dependencies of the operations that delete an account. */
export type DeletionDeps = RetireDeps &
  VaultSyncDeps & {
    clock: Clock;
    mailer: Pick<Mailer, "send">;
    hashes: CodeHashes;
    rates: Pick<ClientRates, "takeSend">;
    actionLimits: ActionLimits;
  };

const path = "/v1/auth/account";

const count = z.int();
const ends = z.object({
  platforms: count.describe("Platforms that end, with their API keys, callbacks and agents"),
  agents: count,
  delegations: count.describe("Delegations that are revoked"),
  requests: count.describe("Requests that are withdrawn"),
  organizations: z
    .array(
      z.object({
        account_id: z.uuid(),
        organization_name: z.string().nullable(),
        effect: z
          .enum(["ends", "left", "last_owner", "opened"])
          .describe(
            "It ends, the person leaves it, or it prevents the deletion: it needs an owner, or its account is the person's",
          ),
      }),
    )
    .describe("The person's organizations"),
});

/** The effects of a deletion, as the API returns them. */
export type DeletionAnswer = z.infer<typeof ends>;

/** Returns the operations with which a person deletes their account. */
export function deletionRoutes(deps: DeletionDeps): Route[] {
  return [previewRoute(deps), codeRoute(deps), deleteRoute(deps)];
}

function previewRoute({ db, clock }: DeletionDeps): Route {
  return route({
    id: "preview_account_deletion",
    method: "GET",
    path: `${path}/deletion`,
    summary: "See what ends if the person deletes their account",
    access: "session",
    roles: "person",
    answer: { status: 200, schema: ends, description: "What ends" },
    errors: [],
    async handle({ caller }) {
      const { accountId } = caller.person;
      return { body: await db.transaction((tx) => whatEnds(tx, accountId, clock.now())) };
    },
  });
}

function codeRoute(deps: DeletionDeps): Route {
  const { db, hashes, clock, rates, actionLimits } = deps;
  return route({
    id: "send_deletion_code",
    method: "POST",
    path: `${path}/deletion-code`,
    summary: "Send the code that deletes the person's account to their address",
    access: "session",
    roles: "person",
    idempotent: true,
    answer: {
      status: 200,
      schema: z.object({ status: z.literal("code_sent") }),
      description: "The code is on its way",
    },
    errors: ["rate_limited", "action_limited", "address_changed"],
    async handle({ caller, ip }) {
      const { accountId, email } = caller.person;
      await refuseRecentlyChanged(db, accountId, clock.now());
      await actionLimits.within("confirm_account", [accountId], async () => {
        await rates.takeSend(ip);
        const { code } = await storeCodes({ db, hashes }, { accountId, email, newEmail: null }, clock.now());
        await sendOrRefuse(deps, deletionMail(email, code));
      });
      return { body: { status: "code_sent" as const } };
    },
  });
}

/** `DELETE /v1/auth/account`: after it returns, the service allows nothing by the account's authority. */
function deleteRoute(deps: DeletionDeps): Route {
  return route({
    id: "delete_account",
    method: "DELETE",
    path,
    summary: "Delete the person's account with everything that ends with it, permanently",
    access: "session",
    roles: "person",
    body: z.object({ address_code: accountCode.describe("The code in the mail to the account's address") }),
    answer: {
      status: 200,
      schema: z.object({ deleted: z.literal(true) }),
      description: "Deleted; the cookies are cleared",
      headers: { "Set-Cookie": "The three cookies, emptied" },
    },
    errors: ["invalid_code", "last_owner", "address_changed"],
    async handle({ caller, body }) {
      const codes = { code: body.address_code, newCode: null };
      const row = await tryCodes(deps, caller.person.accountId, codes, deps.clock.now());
      await deleteAccount(deps, row);
      return { body: { deleted: true as const }, cookies: clearedCookies };
    },
  });
}

/** Deletes an account in one transaction. The vault disables the agents' keys afterwards. */
async function deleteAccount(deps: DeletionDeps, row: AccountCodeRow): Promise<void> {
  const { account_id: personId } = row;
  const retired = await deps.db.transaction(async (tx) => {
    const now = deps.clock.now();
    await lockFamilies(tx, personId);
    const accounts = await accountsOf(tx, personId);
    await lockAll(tx, personId, accounts);
    await spendCodes(tx, row);
    await refuseRecentlyChanged(tx, personId, now);
    const ending: string[] = [];
    for (const accountId of accounts) {
      const members = await listMembers(tx, accountId);
      if (isSharedAccount(accountId, personId, members)) throw new ApiError("last_owner", OPENED);
      if (!members.some(({ account_id }) => account_id === personId)) continue;
      if (members.length === 1) {
        ending.push(accountId);
      } else {
        await leave(tx, accountId, { accountId: personId, email: row.email }, now);
      }
    }
    for (const accountId of ending) await endAccount(tx, accountId, personId);
    await forgetCustomers(tx, ending);
    await recordCreditedAddress(tx, deps.hashes, row.email);
    await forgetPerson(tx, personId, now);
    return removeConnections(tx, deps.secretBox, ending, now);
  });
  deps.apiKeys.forget(retired);
  deps.log.info({ account_id: personId }, "a person deleted their account");
  await syncVault(deps);
}

const OPENED =
  "Your account is also the account of an organization with other members. Remove them first, so that it ends";

/**
 * Returns whether other people use the person's own account, because the person opened their organization.
 * Clusters find this organization by the account's address. So the address must not change hands.
 */
function isSharedAccount(accountId: string, personId: string, members: readonly Member[]): boolean {
  return accountId === personId && members.some(({ account_id }) => account_id !== personId);
}

/** Returns the person's own account and their organizations, in the order in which they are locked. */
async function accountsOf(tx: Transaction, personId: string): Promise<string[]> {
  const rows = await tx("organization_members").where({ account_id: personId }).select("organization_id");
  return [personId, ...rows.map(({ organization_id }) => organization_id)].sort();
}

/** Locks connections first, then members, in the order of an approval. */
async function lockAll(tx: Transaction, personId: string, accounts: readonly string[]): Promise<void> {
  for (const accountId of accounts) {
    const members = await listMembers(tx, accountId);
    if (members.length === 1) {
      await lockConnections(tx, accountId);
    } else {
      await lockSetups(tx, { accountId, personId, wasOwner: true, stays: false });
    }
  }
  // A decision that the person makes at this moment holds a weaker lock of this row.
  await tx("accounts").where({ account_id: personId }).forUpdate().select("account_id");
  for (const accountId of accounts) await lockMembers(tx, accountId);
}

/** Removes the person from an organization and records this in its activity list. Throws `last_owner`. */
async function leave(
  tx: Transaction,
  organizationId: string,
  { accountId, email }: { accountId: string; email: string },
  now: Date,
): Promise<void> {
  const { role } = await changeMemberIn(tx, organizationId, { accountId, role: null, by: accountId });
  const act = {
    accountId: organizationId,
    person: { accountId, email, role },
    operation: "leave_organization",
    target: {},
  };
  await writeAct(tx, act, { status: "done", now });
}

/** Ends what belongs to an account, except its connections. Its history and its ledger remain. */
async function endAccount(tx: Transaction, accountId: string, personId: string): Promise<void> {
  const own = { account_id: accountId };
  const organization = { organization_id: accountId };
  await tx("organization_invitations").where(organization).delete();
  await tx("organization_domains").where(organization).delete();
  await tx("organization_members").where(organization).delete();
  await tx("organization_activity")
    .where({ ...organization, actor_account_id: personId })
    .update({ actor_email: addressOf(personId) });
  await tx("cluster_approvers").where(own).delete();
  await tx("namespace_bindings").where(own).delete();
  await tx("declared_ceilings").where(own).delete();
  await tx("adoptions").where(own).delete();
  await tx("request_channels").where(own).delete();
  await tx("connect_proposals").where(own).delete();
  await tx("saved_filters").where(own).delete();
  await tx("notices")
    .where({ ...own, state: "waiting" })
    .delete();
  await tx("mailing_queues").where(own).delete();
}

/** The reserved top-level domain, to which nobody can send mail (RFC 2606). */
const NOWHERE = "deleted.invalid";

function addressOf(personId: string): string {
  return `${personId}@${NOWHERE}`;
}

/** Erases the person's name and address, and ends their sign-ins. Their account id remains. */
async function forgetPerson(tx: Transaction, personId: string, now: Date): Promise<void> {
  const own = { account_id: personId };
  await tx("accounts")
    .where(own)
    .update({ email: addressOf(personId), first_name: null, last_name: null, own_role: null });
  await tx("session_families")
    .where(own)
    .whereNull("ended_at")
    .update({ ended_at: now, end_reason: "logout" });
  await tx("session_families").where(own).update({ user_agent: null });
  await tx("mail_choices").where(own).delete();
  await tx("mailing_queues").where({ person_id: personId }).delete();
  await tx("former_addresses").where(own).delete();
  await tx("idempotency_keys").where(own).delete();
}

function effectOn(members: readonly Member[], personId: string): "ends" | "left" | "last_owner" {
  const hasOwner = members.some((each) => each.account_id !== personId && each.role === "owner");
  return members.length === 1 ? "ends" : hasOwner ? "left" : "last_owner";
}

async function whatEnds(tx: Transaction, personId: string, now: Date): Promise<DeletionAnswer> {
  const ending: string[] = [];
  const organizations: DeletionAnswer["organizations"] = [];
  for (const accountId of await accountsOf(tx, personId)) {
    const members = await listMembers(tx, accountId);
    const isShared = isSharedAccount(accountId, personId, members);
    if (!isShared && !members.some(({ account_id }) => account_id === personId)) continue;
    const effect = isShared ? "opened" : effectOn(members, personId);
    if (effect === "ends") ending.push(accountId);
    const account = await tx("accounts")
      .where({ account_id: accountId })
      .first("organization_name", "account_type");
    if (account?.account_type !== "organization") continue;
    organizations.push({ account_id: accountId, organization_name: account.organization_name, effect });
  }
  const { rows } = await tx.raw<{ rows: [Omit<DeletionAnswer, "organizations">] }>(
    `with live as (
       select connection_id, platform_id from connections where removed_at is null
         and (account_id = any(:ending::uuid[]) and platform_id is not null or customer_account_id = any(:ending::uuid[])))
     select (select count(platform_id) from live)::int as platforms,
       (select count(*) from agents join live using (connection_id) where disabled_at is null)::int as agents,
       (select count(*) from certificates join live using (connection_id)
         where status = 'approved' and (expires_at is null or expires_at > :now))::int as delegations,
       (select count(*) from delegation_requests join live using (connection_id) where status = 'pending' and expires_at > :now)::int as requests`,
    { ending, now },
  );
  return { ...rows[0], organizations };
}
