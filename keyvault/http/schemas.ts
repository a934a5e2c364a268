import { z } from "zod";
import { invalidScopes } from "../../src/protocol/documents/scopes.ts";
import { MAX_CERTS_PER_REVOCATION_LIST } from "../../src/protocol/statements/revocation_list.ts";
import { VAULT_TENANT } from "../keys/change.ts";
import type { DelegationRequest } from "../sign/delegation.ts";

const ONE_LINE = /^\P{Cc}+$/u;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/;
const MAX_SCOPES = 128;
const MAX_IDENTIFIER_LENGTH = 128;

const CONTROL_CHARACTER = /\p{Cc}/u;

const name = z.string().regex(NAME, "must be 1 to 128 letters, digits and ._:@-");
const tenant = name.refine((value) => value !== VAULT_TENANT, "is reserved for the vault");
const scopes = z
  .array(z.string().max(256).regex(ONE_LINE))
  .max(MAX_SCOPES)
  .refine((list) => invalidScopes(list).length === 0, "holds a scope that is not valid");
const publicKey = z.strictObject({ ed25519: z.string(), ml_dsa_65: z.string() });
const oneLine = (length: number) => z.string().max(length).regex(ONE_LINE, "must be one line of text");
const text = oneLine(512);
const seconds = z.int().min(0);

/** Schema of a tenant name in a path. */
export const tenantName = tenant;

/**
 * Returns the schema of a list of at most `most` identifiers. Checks the list in one pass, because other
 * calls wait and the list may have tens of thousands of items.
 */
export function identifierList(most: number): z.ZodType<string[]> {
  return z
    .custom<string[]>(Array.isArray, "must be a list")
    .refine((list) => list.length <= most, { error: `has more than ${most} items`, abort: true })
    .refine(
      (list) => list.every(isIdentifier),
      `each item must have 1 to ${MAX_IDENTIFIER_LENGTH} characters, none of them a control character`,
    );
}

function isIdentifier(value: unknown): boolean {
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_IDENTIFIER_LENGTH) return false;
  return !CONTROL_CHARACTER.test(value);
}

/** Pattern of key ids in paths and headers. */
export const keyIdPattern = /^[0-9a-f]{32}$/;
export const idempotencyKeyPattern = /^[\x21-\x7e]{8,200}$/;

/** Body of `POST /v1/keys`. A root key must stay within the ceiling of its tenant's earlier root keys. */
export const createKeyBody = z.discriminatedUnion("purpose", [
  z.strictObject({
    tenant,
    purpose: z.literal("account_root"),
    label: oneLine(256),
    ceiling: scopes.exactOptional(),
  }),
  z.strictObject({
    tenant,
    purpose: z.literal("agent"),
    label: oneLine(256),
    ceiling: scopes,
  }),
]);

/** Body of `POST /v1/keys/{id}/disable`. The API must name the tenant. An admin may omit it. */
export const disableBody = z.strictObject({ tenant: tenant.exactOptional() });

/** Body of `POST /v1/keys/{id}/ceiling`. */
export const ceilingBody = z.strictObject({ tenant, ceiling: scopes });

/**
 * Body of `POST /v1/keys/{id}/sign/delegation`. The protocol's rules later check the certificate's contents.
 */
export const delegationBody = z.strictObject({
  tenant,
  certificate: z.strictObject({
    cert_id: name,
    version: z.int(),
    issuer_id: text,
    subject_id: text,
    subject_pub_key: publicKey,
    scope: z.array(z.string()),
    constraints: z.array(z.looseObject({ type: z.string() })),
    issued_at: seconds,
    expires_at: seconds,
  }) as z.ZodType<DelegationRequest>,
  approval: z.strictObject({
    ceiling: scopes,
    request_id: name,
    approved_by: oneLine(320),
    external_subject: z.boolean().exactOptional(),
  }),
});

/** Body of `POST /v1/keys/{id}/sign/challenge`. */
export const challengeBody = z.strictObject({
  tenant,
  challenge: z.string().max(64),
  challenge_at: seconds,
  session_context: z.string().max(64).exactOptional(),
  stream: z.strictObject({ stream_id: z.string().max(64), stream_seq: z.int().min(1) }).exactOptional(),
});

/** Body of `POST /v1/keys/{id}/sign/revocation-list`. */
export const revocationListBody = z
  .strictObject({
    tenant,
    updated_at: seconds,
    revoked_certs: identifierList(MAX_CERTS_PER_REVOCATION_LIST),
    expires_at: z.custom<number[]>(isListOfSeconds, "must be a list of Unix seconds"),
  })
  .refine(({ revoked_certs, expires_at }) => revoked_certs.length === expires_at.length, {
    path: ["expires_at"],
    error: "must be as long as revoked_certs",
  });

/** Checks the list in one pass, because other calls wait and the list may have tens of thousands of items. */
function isListOfSeconds(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

/** Query of `GET /v1/keys/{id}`. */
export const keyQuery = z.strictObject({ tenant: tenant.exactOptional() });

/** Query of `GET /v1/keys`. */
export const listQuery = z.strictObject({
  tenant: name.exactOptional(),
  after: z.string().regex(keyIdPattern).exactOptional(),
  limit: z.coerce.number().int().min(1).max(500).default(100),
});
