import { noteMail } from "../accounts/mailings/queue.ts";
import { lockRole, mayApprove, mayConnect, mayPropose } from "../accounts/member_role.ts";
import { addSeconds } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { ConnectProposalRow, Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { newId } from "../ids.ts";
import { checkCeiling } from "../input/ceiling.ts";
import type { SessionCaller } from "../route.ts";
import {
  type ConnectChoice,
  type ConnectDecisionDeps,
  lockProduct,
  readConnectRequest,
} from "./approve_connect.ts";
import { redirectAddress } from "./connect_request.ts";
import { checkSameWords, chooseScopes, consentOf, hashConsent } from "./consent.ts";

/** How long a proposal waits, and how long its approval is in force. */
const PROPOSAL_SECONDS = 7 * 24 * 3_600;
const APPROVAL_SECONDS = 30 * 24 * 3_600;
/** How long an ended proposal is kept: a mail waits for at most a day, and is attempted for three. */
const ENDED_SECONDS = 4 * 24 * 3_600;
/** The most undecided proposals of an organization, and of one of its members. */
const OPEN = { organization: 50, person: 10 } as const;

/** A member who acts for an organization. */
type Member = { accountId: string; personId: string };

/** Returns the member who calls. */
export function memberOf({ accountId, person }: SessionCaller): Member {
  return { accountId, personId: person.accountId };
}

/** The proposal that a call made or ended, as the activity list shows it. */
export type ShownProposal = { proposal_id: string; platform_name: string };

/**
 * Stores a member's proposal to connect a product, and notes a mail to those who may connect it. Returns the
 * address that leads the browser back to the product, which learns only that nobody connected. If the
 * organization has an undecided proposal of this product, replaces its content, and notes no mail.
 *
 * Throws `not_found`, `invalid_redirect_uri`, `invalid_scopes`, `ceiling_exceeded`, `forbidden` for a member
 * who may connect the product or may not propose, and for a draft, and `request_limit`.
 */
export async function proposeConnect(
  deps: ConnectDecisionDeps,
  { accountId, personId }: Member,
  requestId: string,
  { scopes, consentHash }: Pick<ConnectChoice, "scopes" | "consentHash">,
): Promise<{ redirectTo: string; proposal: ShownProposal }> {
  const { request, consent, consentHash: shown } = await readConnectRequest(deps, requestId);
  checkSameWords(consentHash, shown);
  const chosen = chooseScopes(consent.scopes, scopes);
  const { platformId: platform_id, redirectUri: redirect_uri, accountLabel: account_label } = request;
  const now = deps.clock.now();
  const proposalId = await deps.db.transaction(async (tx) => {
    // Members of an organization propose one after the other, so that the limits are exact.
    await tx("accounts").where({ account_id: accountId }).forNoKeyUpdate().select("account_id");
    if (!mayPropose(await lockRole(tx, accountId, personId))) throw new ApiError("forbidden");
    const { isTest } = await lockProduct(tx, { platform_id, customer_account_id: accountId, redirect_uri });
    if (isTest) throw new ApiError("forbidden", "A draft cannot be proposed");
    const content = { proposed_by: personId, scopes: chosen, account_label, redirect_uri };
    return store(tx, { accountId, platformId: platform_id }, content, now);
  });
  return {
    redirectTo: redirectAddress(deps.baseUrl, request, { error: "access_denied" }),
    proposal: { proposal_id: proposalId, platform_name: consent.platform_name },
  };
}

type Content = Pick<ConnectProposalRow, "proposed_by" | "scopes" | "account_label" | "redirect_uri">;

/** Returns the proposal's id. */
async function store(
  tx: Transaction,
  { accountId: account_id, platformId: platform_id }: { accountId: string; platformId: string },
  content: Content,
  now: Date,
): Promise<string> {
  const same = { account_id, platform_id, approved_at: null };
  await tx("connect_proposals")
    .where(same)
    .andWhere((over) => over.where("expires_at", "<=", now).orWhereNotNull("ended_at"))
    .delete();
  const [open] = await tx("connect_proposals").where(same).update(content).returning("proposal_id");
  if (open !== undefined) return open.proposal_id;
  const { rows } = await tx.raw<{ rows: [{ all: number; own: number }] }>(
    `select count(*)::int as all, count(*) filter (where proposed_by = :person)::int as own
     from connect_proposals where account_id = :account_id and approved_at is null and ended_at is null and expires_at > :now`,
    { account_id, person: content.proposed_by, now },
  );
  const [{ all, own }] = rows;
  if (own >= OPEN.person) throw limited(`You have ${OPEN.person} undecided proposals`);
  if (all >= OPEN.organization) {
    throw limited(`The organization has ${OPEN.organization} undecided proposals`);
  }
  const proposal_id = newId();
  await tx("connect_proposals").insert({
    ...{ proposal_id, account_id, platform_id, ...content, created_at: now },
    expires_at: addSeconds(now, PROPOSAL_SECONDS),
    ...{ approved_by: null, approved_at: null, consent: null, ended_at: null, declined_by: null },
  });
  await noteMail(tx, "product_proposed", proposal_id, now);
  return proposal_id;
}

function limited(what: string): ApiError {
  return new ApiError("request_limit", `${what}. Somebody must decide some, or they lapse after 7 days`);
}

/** A proposal or an approval of an account, with email addresses instead of account ids. */
export type ProposalRecord = Omit<ConnectProposalRow, "proposed_by" | "approved_by"> & {
  proposed_by: string | null;
  approved_by: string | null;
};

/** Whether the member may still connect products who approved `p` for the account `a`. */
const APPROVER_CONNECTS = `coalesce(
  (select own_role from accounts where account_id = p.approved_by and account_id = a.account_id),
  (select role from organization_members where organization_id = a.account_id and account_id = p.approved_by))
  in ('owner', case when a.connecting = 'owners_and_approvers' then 'approver' end)`;

/** Selects the undecided proposals of an account, and the approvals that its members still stand for. */
export function selectProposals(db: Database, { accountId, now }: { accountId: string; now: Date }) {
  return db("connect_proposals as p")
    .join("accounts as a", "a.account_id", "p.account_id")
    .leftJoin("accounts as q", "q.account_id", "p.proposed_by")
    .leftJoin("accounts as d", "d.account_id", "p.approved_by")
    .where({ "p.account_id": accountId })
    .andWhere("p.expires_at", ">", now)
    .whereNull("p.ended_at")
    .whereRaw(`(p.approved_at is null or ${APPROVER_CONNECTS})`)
    .select<ProposalRecord[]>("p.*", "q.email as proposed_by", "d.email as approved_by");
}

/** Returns the hash of what a person reads about a proposal. A change of the proposal changes it, too. */
export function hashProposal(consent: Consent, { redirect_uri }: Pick<ConnectProposalRow, "redirect_uri">) {
  return hashConsent(consent, redirect_uri);
}

/** The decision of a member who may connect products. */
export type ProposalChoice = { scopes: readonly string[]; consentHash: string };

/**
 * Approves a proposal for 30 days, with all or some of its scopes, in place of a former approval of this
 * product. Notes a mail to the member who proposed. Throws `forbidden` unless the member may connect
 * products, `not_found` if the proposal was decided or has ended, and `invalid_scopes`, also if it or the
 * platform's words have changed since the page with `consentHash`.
 */
export async function approveProposal(
  { db, clock }: Pick<ConnectDecisionDeps, "db" | "clock">,
  { accountId, personId }: Member,
  proposalId: string,
  { scopes, consentHash }: ProposalChoice,
): Promise<ShownProposal> {
  const now = clock.now();
  return db.transaction(async (tx) => {
    if (!mayConnect(await lockRole(tx, accountId, personId))) throw new ApiError("forbidden");
    const open = () =>
      tx("connect_proposals")
        .where({ proposal_id: proposalId, account_id: accountId, approved_at: null, ended_at: null })
        .andWhere("expires_at", ">", now);
    const seen = await open().first("platform_id", "redirect_uri");
    if (seen === undefined) throw new ApiError("not_found");
    const { product, isTest } = await lockProduct(tx, { ...seen, customer_account_id: accountId });
    // After the platform's lock, in the order in which unpublishing ends proposals.
    const proposal = await open().forUpdate().first();
    if (proposal === undefined || isTest) throw new ApiError("not_found");
    const { account_label: accountLabel } = proposal;
    const consent = await consentOf(tx, product, { scopes: proposal.scopes, accountLabel });
    checkSameWords(consentHash, hashProposal(consent, proposal));
    const chosen = chooseScopes(proposal.scopes, scopes);
    checkCeiling(product.default_allowed_scopes, chosen);
    await tx("connect_proposals")
      .where({ account_id: accountId, platform_id: proposal.platform_id })
      .whereNotNull("approved_at")
      .delete();
    await tx("connect_proposals")
      .where({ proposal_id: proposalId })
      .update({
        ...{ scopes: chosen, approved_by: personId, approved_at: now },
        consent: JSON.stringify(consent) as unknown as Consent,
        expires_at: addSeconds(now, APPROVAL_SECONDS),
      });
    await noteMail(tx, "request_decided", proposalId, now);
    return { proposal_id: proposalId, platform_name: product.name };
  });
}

/**
 * Declines a proposal and notes a mail to the member who proposed, or ends an approval. Owners and approvers
 * may. Codes that a member got with the approval end, too. Throws `forbidden`, and `not_found` if it has
 * ended.
 */
export async function endProposal(
  { db, clock }: Pick<ConnectDecisionDeps, "db" | "clock">,
  { accountId, personId }: Member,
  proposalId: string,
): Promise<ShownProposal> {
  const now = clock.now();
  return db.transaction(async (tx) => {
    const { role } = await lockRole(tx, accountId, personId);
    if (!mayApprove(role)) throw new ApiError("forbidden");
    const live = () =>
      tx("connect_proposals")
        .where({ proposal_id: proposalId, account_id: accountId, ended_at: null })
        .andWhere("expires_at", ">", now);
    const [declined] = await live()
      .whereNull("approved_at")
      .update({ ended_at: now, declined_by: personId, expires_at: now })
      .returning("platform_id");
    if (declined !== undefined) await noteMail(tx, "request_decided", proposalId, now);
    const [ended] = declined ? [declined] : await live().delete().returning("platform_id");
    if (ended === undefined) throw new ApiError("not_found");
    const product = await tx("platforms").where({ platform_id: ended.platform_id }).first("name");
    return { proposal_id: proposalId, platform_name: product?.name ?? "" };
  });
}

/**
 * Notes a mail about each proposal that lapsed, once, to the member who proposed. Deletes approvals that
 * ended, and proposals that ended some days ago.
 */
export async function pruneProposals({ db, now }: { db: Database; now: Date }): Promise<void> {
  await db.raw(
    `with lapsed as (
       update connect_proposals set ended_at = :now where proposal_id in (
         select proposal_id from connect_proposals
         where approved_at is null and ended_at is null and expires_at <= :now for update skip locked)
       returning proposal_id)
     insert into mail_topics (kind, request_id, created_at) select 'request_decided', proposal_id, :now from lapsed`,
    { now },
  );
  const due = db("connect_proposals")
    .where("expires_at", "<=", now)
    .andWhere((over) =>
      over.whereNotNull("approved_at").orWhere("ended_at", "<=", addSeconds(now, -ENDED_SECONDS)),
    )
    .forUpdate()
    .skipLocked();
  await db("connect_proposals").whereIn("proposal_id", due.select("proposal_id")).delete();
}
