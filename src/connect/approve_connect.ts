import { hash, randomBytes } from "node:crypto";
import { lockRole, mayConnect } from "../accounts/member_role.ts";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { ConnectCodeRow, Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { isOneScript, MIXED_SCRIPTS } from "../input/scripts.ts";
import { findOwner } from "../platforms/account_owner.ts";
import type { ActingPerson, MemberRole } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import {
  type Approval,
  findApproval,
  findLiveConnection,
  refuseFewer,
  requireApproval,
} from "./approvals.ts";
import {
  type ConnectRequest,
  findProduct,
  isRedirectUri,
  openRequest,
  type Product,
  redirectAddress,
} from "./connect_request.ts";
import { checkSameWords, chooseScopes, consentOf, hashConsent } from "./consent.ts";

const CODE_SECONDS = 60;
const TEST_CUSTOMERS = 5;

/** Dependencies of deciding about a request. */
export type ConnectDecisionDeps = { db: Database; secretBox: SecretBox; clock: Clock; baseUrl: string };

/** A request to connect as a page shows it. A decision that names `consentHash` is about the same words. */
export type ShownRequest = {
  request: ConnectRequest;
  product: Product;
  consent: Consent;
  consentHash: string;
};

/**
 * Reads the signed request in the address of a page. Throws `not_found` if it is unknown, older than an hour,
 * or if its platform was removed, and `invalid_redirect_uri` if the product must not be returned to.
 */
export async function readConnectRequest(
  { db, secretBox, clock }: Omit<ConnectDecisionDeps, "baseUrl">,
  requestId: string,
): Promise<ShownRequest> {
  const request = openRequest({ secretBox, clock }, requestId, "connect_request");
  const product = request && (await findProduct(db, request.platformId));
  if (request === undefined || product === undefined) throw new ApiError("not_found");
  if (!isRedirectUri(product, request.redirectUri)) throw new ApiError("invalid_redirect_uri");
  const scopes = request.scopes ?? product.default_allowed_scopes;
  const consent = await consentOf(db, product, { scopes, accountLabel: request.accountLabel });
  return { request, product, consent, consentHash: hashConsent(consent) };
}

/**
 * The decision of a person. `shownName` is the name of the account that the publisher sees, by default the
 * account's name.
 */
export type ConnectChoice = {
  accountId: string;
  scopes: readonly string[];
  shownName?: string;
  consentHash?: string;
};

/**
 * Approves a request for an account, and returns the address that leads the browser back with a code. Neither
 * a connection nor a key exists before the product exchanges the code. Approving the same request again
 * replaces its code.
 *
 * Throws `invalid_request` for a new name that mixes scripts. The account's own name and that of the existing
 * connection may do so. Throws `not_found`, `invalid_redirect_uri`, `onboarding_incomplete`,
 * `ceiling_exceeded`, `forbidden` as {@link checkMayConnect} does, and `invalid_scopes`, also if the words
 * have changed since the page with `consentHash`.
 */
export async function approveConnect(
  deps: ConnectDecisionDeps,
  person: Pick<ActingPerson, "accountId">,
  requestId: string,
  { accountId, scopes, shownName, consentHash }: ConnectChoice,
): Promise<string> {
  const shown = await readConnectRequest(deps, requestId);
  const { request, consent } = shown;
  checkSameWords(consentHash, shown.consentHash);
  const chosen = chooseScopes(consent.scopes, scopes);
  const { orgName } = await findOwner(deps.db, accountId);
  const live = await findLiveConnection(deps.db, { accountId, platformId: request.platformId });
  const customerName = shownName ?? orgName;
  if (![orgName, live?.shownName].includes(customerName) && !isOneScript(customerName)) {
    throw new ApiError("invalid_request", `body.shown_name: ${MIXED_SCRIPTS}`);
  }
  const code = randomBytes(32).toString("base64url");
  const now = deps.clock.now();
  await deps.db.transaction(async (tx) => {
    const approval = await findApproval(tx, { accountId, platformId: request.platformId, now });
    const row: ConnectCodeRow = {
      code_hash: hashCode(code),
      request_id: request.id,
      platform_id: request.platformId,
      customer_account_id: accountId,
      customer_name: customerName,
      person_id: person.accountId,
      redirect_uri: request.redirectUri,
      code_challenge: request.challenge,
      scopes: chosen,
      consent: JSON.stringify(consent) as unknown as Consent,
      proposal_id: approval?.proposal_id ?? null,
      expires_at: addSeconds(now, CODE_SECONDS),
    };
    const checked = await checkMayConnect(tx, { ...row, consent }, now);
    if (checked.approval !== undefined) await refuseFewer(tx, row);
    await tx("connect_codes").insert(row).onConflict("request_id").merge();
  });
  return redirectAddress(deps.baseUrl, request, { code });
}

/** Returns the only form in which a code is stored. */
export function hashCode(code: string): Buffer {
  return hash("sha256", code, "buffer");
}

type Customer = Pick<ConnectCodeRow, "platform_id" | "customer_account_id" | "person_id" | "redirect_uri">;

/** The facts about a customer who may connect. */
export type CheckedConnect = {
  role: MemberRole;
  publisherId: string;
  isTest: boolean;
  approval: Approval | undefined;
};

/**
 * Throws unless an account may connect to a product now, and a person may decide so: by their role, or with
 * the approval that the code names. Nothing that it checks changes before the transaction ends, except who
 * belongs to the publisher of a draft. Returns the role of the person, the publisher, whether the product is
 * a draft, and the approval.
 */
export async function checkMayConnect(
  tx: Transaction,
  code: ConnectCodeRow,
  now: Date,
): Promise<CheckedConnect> {
  const { customer_account_id, person_id } = code;
  const held = await lockRole(tx, customer_account_id, person_id);
  const { role } = held;
  if (role === null) throw new ApiError("forbidden");
  const { product, isTest } = await lockProduct(tx, code);
  const checked = { role, publisherId: product.account_id, isTest };
  if (mayConnect(held)) {
    if (isTest) await checkTester(tx, product, code);
    return { ...checked, approval: undefined };
  }
  if (isTest) throw new ApiError("forbidden");
  return { ...checked, approval: await requireApproval(tx, code, held, now) };
}

/**
 * Locks a product, and throws unless an account can connect to it: `not_found`, `invalid_redirect_uri`, and
 * `forbidden` for the account of its publisher. Returns whether it is a draft.
 */
export async function lockProduct(
  tx: Transaction,
  { platform_id, customer_account_id, redirect_uri }: Omit<Customer, "person_id">,
): Promise<{ product: Product; isTest: boolean }> {
  await tx("platforms").where({ platform_id }).forShare().select("platform_id");
  const product = await findProduct(tx, platform_id);
  if (product === undefined) throw new ApiError("not_found");
  if (!isRedirectUri(product, redirect_uri)) throw new ApiError("invalid_redirect_uri");
  if (product.account_id === customer_account_id) {
    throw new ApiError("forbidden", "The platform belongs to this account, which has a connection to it");
  }
  return { product, isTest: product.publish_state !== "published" };
}

/** Returns whether a person belongs to the account that publishes a product. */
export async function isOfPublisher(
  db: Database | Transaction,
  { account_id }: Pick<Product, "account_id">,
  personId: string,
): Promise<boolean> {
  const { rows } = await db.raw<{ rows: [{ is_member: boolean }] }>(
    `select exists (select from accounts where account_id = :account_id and account_id = :personId and own_role is not null)
       or exists (select from organization_members where organization_id = :account_id and account_id = :personId) as is_member`,
    { account_id, personId },
  );
  return rows[0].is_member;
}

/** The customers of a draft are accounts for which a member of its publisher connects. */
async function checkTester(
  tx: Transaction,
  product: Product,
  { customer_account_id, person_id }: Customer,
): Promise<void> {
  if (!(await isOfPublisher(tx, product, person_id))) {
    throw new ApiError(
      "forbidden",
      "Only members of its publisher can connect to a platform that is a draft",
    );
  }
  const { rows } = await tx.raw<{ rows: [{ others: number }] }>(
    `select count(distinct c.customer_account_id)::int as others
     from connections c join connect_consents n using (connection_id)
     where c.product_id = :platform_id and c.removed_at is null and n.is_test
       and c.customer_account_id <> :customer_account_id`,
    { platform_id: product.platform_id, customer_account_id },
  );
  if (rows[0].others >= TEST_CUSTOMERS) {
    throw new ApiError("forbidden", `A draft has at most ${TEST_CUSTOMERS} test customers`);
  }
}

/** Deletes codes that have expired. */
export async function pruneConnectCodes({ db, now }: { db: Database; now: Date }): Promise<void> {
  await db("connect_codes").where("expires_at", "<=", now).delete();
}
