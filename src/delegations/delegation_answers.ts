import { z } from "zod";
import { declaredAnswer, showDeclared } from "../input/declared_fields.ts";
import { constraint, type constraintList } from "../input/delegation_fields.ts";
import { explanationValues, shownDescriptions } from "../input/platform_fields.ts";
import { isoTime } from "../input/schemas.ts";
import { pickDescriptions } from "../platforms/scope_descriptions.ts";
import { fingerprintOfKey } from "../protocol/keys/hybrid.ts";
import { type AccountCaller, principalOf } from "../route.ts";
import type { CertificateRecord, RequestRecord } from "./delegation_records.ts";
import { allowsOnce } from "./requests/agent_requests.ts";

const linkedCertificate = z
  .string()
  .nullable()
  .describe("The second certificate of the same approval, with other scopes");

const agentFacts = z.object({
  name: z.string(),
  key_fingerprint: z.string().describe("sha256 and the hash of the public key's canonical JSON"),
  custody_mode: z.enum(["custodial", "self_custody"]),
});

const declaredBy = z
  .object({
    cluster_id: z.string(),
    namespace: z.string().nullable(),
    name: z.string().nullable(),
    ...declaredAnswer,
  })
  .nullable()
  .describe("The Kubernetes object that declares it; null if a person requested it with a session");

const names = z.object({
  platform_name: z.string(),
  organization_name: z.string().nullable(),
  same_account: z.boolean().describe("Whether it belongs to the same account"),
});
const refusal = z
  .object({
    evaluation_id: z.string().nullable(),
    reason: z.string(),
    required_scope: z.string(),
    refused_at: isoTime,
    verifier: names.nullable().describe("Who refused, or whose application the agent wanted to call"),
    sent: z.record(z.string(), z.string()).optional().describe("The values that a limit refused"),
    values: explanationValues.optional().describe("How `sent` has personal values"),
    operation: z
      .object({
        action: z.string(),
        resource_id: z.string(),
        requested_path: z.string(),
        with_payload: z.boolean(),
        payload: z.string().optional().describe("Canonical JSON, until the decision"),
      })
      .optional()
      .describe("The refused action, if the agent showed it. Its hash is the refused one"),
    allows_once: z.boolean().describe("Whether an approval can have `once`"),
  })
  .nullable()
  .describe("The refusal that the agent asks about; null if a person or an object asks");

/** A delegation request, as the API returns it. */
export const requestAnswer = z.object({
  request_id: z.string(),
  connection_id: z.string(),
  agent_id: z.string(),
  agent: agentFacts,
  status: z.enum(["pending", "approved", "denied", "expired", "withdrawn"]),
  requested_scope: z.array(z.string()),
  scope_descriptions: shownDescriptions,
  purpose: z.string().nullable().describe("Why the agent needs it, in the words of whoever asks"),
  refusal,
  constraints: z.array(constraint),
  requested_expires_at: isoTime.nullable().describe("Requested end of the certificate"),
  requested_expires_in: z
    .int()
    .nullable()
    .describe("Requested end of the certificate, in seconds after approval"),
  reason: z.string().nullable(),
  created_at: isoTime,
  expires_at: isoTime.describe("When a pending request expires"),
  requested_by: z.string().nullable().describe("E-mail of the person who asked; null if an object did"),
  connected_by: z.string().nullable().describe("E-mail of the member who connected the product that asks"),
  declared_by: declaredBy,
  four_eyes: z
    .boolean()
    .describe("Whether the approver must be someone other than the person who asked or connected"),
  decided_at: isoTime.nullable(),
  decided_by: z
    .string()
    .nullable()
    .describe("E-mail of the person who decided, or the user's name in the cluster where that was"),
  decided_in_cluster: z
    .string()
    .nullable()
    .describe("Id of that cluster; null if it was not decided in a cluster"),
  approved_scope: z.array(z.string()).nullable(),
  cert_id: z.string().nullable(),
  linked_cert_id: linkedCertificate,
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  publisher: z
    .object({ name: z.string(), domain: z.string().nullable() })
    .nullable()
    .describe("Publisher, with its verified domain while published; null if it is your own draft"),
});

/** A delegation request in an answer. */
export type RequestAnswer = z.infer<typeof requestAnswer>;

/** A certificate, as the API returns it. */
export const certificateAnswer = z.object({
  cert_id: z.string(),
  request_id: z.string(),
  linked_cert_id: linkedCertificate,
  connection_id: z.string(),
  agent_id: z.string(),
  approved_scope: z.array(z.string()),
  scope_descriptions: shownDescriptions,
  status: z.enum(["approved", "revoked"]),
  issued_at: isoTime,
  expires_at: isoTime.nullable().describe("null if it does not expire"),
  approved_by: z.string().nullable().describe("E-mail of the person who approved"),
  approval_channel: z.string(),
  revoked_at: isoTime.nullable(),
  revoke_reason: z.string().nullable(),
  revoked_by: z.string().nullable().describe("E-mail of the person who revoked it with a session"),
  agent: agentFacts,
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  declared_by: declaredBy,
  cert_json: z.record(z.string(), z.unknown()).describe("The signed certificate (wire format §4)"),
});

/** A certificate in an answer. */
export type CertificateAnswer = z.infer<typeof certificateAnswer>;

/** Returns whether a caller is a product, which sees no addresses of its customer's members. */
function isProduct(caller: AccountCaller): boolean {
  return principalOf(caller) !== caller.accountId;
}

/** Converts a request to the form that the API returns to a caller. */
export function showRequest(record: RequestRecord, caller: AccountCaller): z.infer<typeof requestAnswer> {
  return {
    request_id: record.request_id,
    connection_id: record.connection_id,
    agent_id: record.agent_id,
    agent: showAgentFacts(record),
    status: record.status,
    requested_scope: record.requested_scope,
    scope_descriptions: record.scope_descriptions,
    purpose: record.purpose,
    refusal: showRefusal(record),
    constraints: record.constraints as z.infer<typeof constraintList>,
    requested_expires_at: showTime(record.requested_expires_at),
    requested_expires_in: record.requested_expires_in,
    reason: record.reason,
    created_at: record.created_at.toISOString(),
    expires_at: record.expires_at.toISOString(),
    requested_by: isProduct(caller) ? null : record.requested_by,
    connected_by: isProduct(caller) ? null : record.connected_by,
    declared_by: showObject(record),
    four_eyes: record.four_eyes,
    decided_at: showTime(record.decided_at),
    decided_by: isProduct(caller) ? null : record.decided_by,
    decided_in_cluster: record.decided_cluster,
    approved_scope: record.approved_scope,
    cert_id: record.cert_id,
    linked_cert_id: record.linked_cert_id,
    platform: { platform_id: record.platform_id, name: record.platform_name },
    publisher: showPublisher(record),
  };
}

function showRefusal({
  refusal,
  refused_action,
  custody_mode,
}: RequestRecord): z.infer<typeof requestAnswer>["refusal"] {
  if (refusal === null) return null;
  const { explanation, ...rest } = refusal;
  const allows_once = allowsOnce({ refusal, refused_action }, custody_mode);
  const { sent, values } = explanation ?? {};
  return { ...rest, ...(sent && { sent }), ...(values && { values }), allows_once };
}

/** Returns the declaring object, if there is one. Its cluster's id is the external id up to the first dot. */
function showObject(record: RequestRecord | CertificateRecord) {
  const { external_id, object_namespace, object_name } = record;
  if (external_id === null) return null;
  return {
    cluster_id: external_id.split(".")[0] ?? "",
    namespace: object_namespace,
    name: object_name,
    ...showDeclared(record),
  };
}

function showAgentFacts({ agent_name, agent_key, custody_mode }: RequestRecord | CertificateRecord) {
  return { name: agent_name, key_fingerprint: fingerprintOfKey(agent_key), custody_mode };
}

function showPublisher({ publisher_name, publisher_domain }: RequestRecord) {
  if (publisher_name === null) return null;
  return { name: publisher_name, domain: publisher_domain };
}

/** Converts a certificate to the form that the API returns to a caller. */
export function showCertificate(
  record: CertificateRecord,
  caller: AccountCaller,
): z.infer<typeof certificateAnswer> {
  return {
    cert_id: record.cert_id,
    request_id: record.request_id,
    linked_cert_id: record.linked_cert_id,
    connection_id: record.connection_id,
    agent_id: record.agent_id,
    approved_scope: record.approved_scope,
    scope_descriptions: pickDescriptions(record.scope_descriptions, record.approved_scope),
    status: record.status,
    issued_at: record.issued_at.toISOString(),
    expires_at: showTime(record.expires_at),
    approved_by: isProduct(caller) ? null : record.approved_by,
    approval_channel: record.approval_channel,
    revoked_at: showTime(record.revoked_at),
    revoke_reason: record.revoke_reason,
    revoked_by: isProduct(caller) ? null : record.revoked_by,
    agent: showAgentFacts(record),
    platform: { platform_id: record.platform_id, name: record.platform_name },
    declared_by: showObject(record),
    cert_json: JSON.parse(record.cert_json),
  };
}

/** Formats a time for an answer. `null` stays `null`. */
export function showTime(time: Date | null): string | null {
  return time === null ? null : time.toISOString();
}
