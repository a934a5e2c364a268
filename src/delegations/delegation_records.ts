import { accountNameOf, type Database, platformOf, type Transaction } from "../db/database.ts";
import type { AgentRow, CertificateRow, DelegationRequestRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isCertificateId, isRequestId } from "../ids.ts";
import { type DeclaredColumns, selectedColumns } from "../input/declared_fields.ts";
import type { ScopeDescriptions } from "../input/platform_fields.ts";
import { type AccountCaller, principalOf } from "../route.ts";

/** A delegation request, with email addresses instead of account ids. */
export type RequestRecord = Omit<DelegationRequestRow, "requested_by" | "connected_by" | "decided_by"> & {
  requested_by: string | null;
  connected_by: string | null;
  decided_by: string | null;
  cert_id: string | null;
  cert_expires_at: Date | null;
  /** The certificate of the linked request. */
  linked_cert_id: string | null;
  agent_name: string;
  agent_key: AgentRow["public_key"];
  custody_mode: AgentRow["custody_mode"];
  /** Namespace of the object that declares the request. The platform's object is in the same namespace. */
  object_namespace: string | null;
  /** Whether the account requires approval by someone other than the requester. */
  four_eyes: boolean;
  approved_scope: string[] | null;
  platform_id: string;
  platform_name: string;
  /**
   * The account that publishes the platform, and its domain while published. A customer's connection always
   * has the name.
   */
  publisher_name: string | null;
  publisher_domain: string | null;
};

/** Selects all requests. Callers narrow the query by `r.` (delegation_requests). */
export function selectRequests(db: Database | Transaction) {
  return db("delegation_requests as r")
    .join("accounts as h", "h.account_id", "r.account_id")
    .join("agents as b", "b.agent_id", "r.agent_id")
    .join("connections as n", "n.connection_id", "r.connection_id")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("n")))
    .joinRaw(
      `left join accounts as o on o.account_id = p.account_id
         and (p.publish_state = 'published' or n.product_id is not null)`,
    )
    .leftJoin("certificates as t", "t.request_id", "r.request_id")
    .leftJoin("certificates as l", "l.request_id", "r.linked_request_id")
    .leftJoin("accounts as d", "d.account_id", "r.decided_by")
    .leftJoin("accounts as q", "q.account_id", "r.requested_by")
    .leftJoin("accounts as k", "k.account_id", "r.connected_by")
    .select<RequestRecord[]>(
      "r.*",
      "q.email as requested_by",
      "k.email as connected_by",
      db.raw("coalesce(d.email, r.decided_user) as decided_by"),
      "t.cert_id",
      "t.expires_at as cert_expires_at",
      "l.cert_id as linked_cert_id",
      "b.name as agent_name",
      "b.public_key as agent_key",
      "b.custody_mode",
      "p.object_namespace",
      "h.four_eyes",
      "t.approved_scope",
      "p.platform_id",
      "p.name as platform_name",
      db.raw(`${accountNameOf("o")} as publisher_name`),
      db.raw("case when p.publish_state = 'published' then p.published_domain end as publisher_domain"),
    );
}

/** Returns the caller's request with this id, in its state at `now`. Throws `not_found`. */
export async function findRequest(
  db: Database | Transaction,
  caller: AccountCaller,
  requestId: string,
  now: Date,
): Promise<RequestRecord> {
  if (!isRequestId(requestId)) throw new ApiError("not_found");
  const [record] = await selectRequests(db)
    .where({ "r.request_id": requestId, ...callerRows(caller, "r") })
    .limit(1);
  if (record === undefined) throw new ApiError("not_found");
  return stateAt(record, now);
}

/** Returns a request in its state at `now`. A pending request counts as expired after its expiry time. */
export function stateAt(record: RequestRecord, now: Date): RequestRecord {
  return isPending(record, now) || record.status !== "pending" ? record : { ...record, status: "expired" };
}

/** Checks whether a request can still be decided at `now`. */
export function isPending(row: Pick<DelegationRequestRow, "status" | "expires_at">, now: Date): boolean {
  return row.status === "pending" && now < row.expires_at;
}

/** Marks an account's due requests as expired. Skips rows locked by a decision, which checks the expiry. */
export async function expireRequests(db: Database, accountId: string, now: Date): Promise<void> {
  const due = db("delegation_requests")
    .select("request_id")
    .where({ account_id: accountId, status: "pending" })
    .andWhere("expires_at", "<=", now)
    .forUpdate()
    .skipLocked();
  await db("delegation_requests").whereIn("request_id", due).update({ status: "expired" });
}

/**
 * Returns the condition for the rows that a caller may see in the table with this alias. A person sees all
 * rows of the account. An application sees only rows of its own connection.
 */
export function callerRows(caller: AccountCaller, alias: string): Record<string, string> {
  const { connectionId, agentId = null } = caller;
  return {
    [`${alias}.account_id`]: principalOf(caller),
    ...(connectionId !== null && { [`${alias}.connection_id`]: connectionId }),
    ...(agentId !== null && { [`${alias}.agent_id`]: agentId }),
  };
}

/** A certificate with its agent, platform and declaring object. Email addresses replace account ids. */
export type CertificateRecord = Omit<CertificateRow, "approved_by" | "revoked_by"> &
  DeclaredColumns & {
    approved_by: string;
    revoked_by: string | null;
    agent_name: string;
    agent_key: AgentRow["public_key"];
    custody_mode: AgentRow["custody_mode"];
    platform_id: string;
    platform_name: string;
    external_id: string | null;
    object_namespace: string | null;
    object_name: string | null;
    scope_descriptions: ScopeDescriptions;
    /** The certificate that the same approval created. */
    linked_cert_id: string | null;
    /** Whether it is revoked only because its connection is removed. The worker then also stores this. */
    is_ending: boolean;
  };

/**
 * Whether the connection of a certificate is removed, and the worker has not revoked the certificate yet. No
 * decision allows it.
 */
export const IS_ENDING = "(t.status = 'approved' and n.removed_at is not null)";

/** Returns the value that a certificate shows as soon as its connection is removed. */
function whileEnding(db: Database | Transaction, column: string, value: string) {
  return db.raw(`case when ${IS_ENDING} then ${value} else t.${column} end as ${column}`);
}

/**
 * Selects all certificates, with the status that decisions see. Narrow the query by `t.` (certificates), `g.`
 * (agents), `n.` (connections) and `p.` (platforms).
 */
export function selectCertificates(db: Database | Transaction) {
  return db("certificates as t")
    .join("accounts as a", "a.account_id", "t.approved_by")
    .leftJoin("accounts as b", "b.account_id", "t.revoked_by")
    .join("agents as g", "g.agent_id", "t.agent_id")
    .join("connections as n", "n.connection_id", "t.connection_id")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("n")))
    .join("delegation_requests as r", "r.request_id", "t.request_id")
    .leftJoin("certificates as l", "l.request_id", "r.linked_request_id")
    .select<CertificateRecord[]>(
      "t.*",
      whileEnding(db, "status", "'revoked'"),
      whileEnding(db, "revoked_at", "n.removed_at"),
      whileEnding(db, "revoke_reason", "'connection removed'"),
      db.raw(`${IS_ENDING} as is_ending`),
      "a.email as approved_by",
      "b.email as revoked_by",
      "g.name as agent_name",
      "g.public_key as agent_key",
      "g.custody_mode",
      "p.platform_id",
      "p.name as platform_name",
      "r.external_id",
      "p.object_namespace",
      "r.object_name",
      "r.scope_descriptions",
      "l.cert_id as linked_cert_id",
      ...selectedColumns("r"),
    );
}

/** Returns the caller's certificate with this id. Throws `not_found`. */
export async function findCertificate(
  db: Database | Transaction,
  caller: AccountCaller,
  certId: string,
): Promise<CertificateRecord> {
  if (!isCertificateId(certId)) throw new ApiError("not_found");
  const [record] = await selectCertificates(db)
    .where({ "t.cert_id": certId, ...callerRows(caller, "t") })
    .limit(1);
  if (record === undefined) throw new ApiError("not_found");
  return record;
}
