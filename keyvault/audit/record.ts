import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { AuditRow, Purpose } from "../db/rows.ts";
import type { RefusalCode } from "../errors.ts";

/** Roles that a client's certificate can grant. `backup` can only create backups. */
export const REMOTE_ROLES = ["api", "admin", "auditor", "backup"] as const;

/** One of the {@link REMOTE_ROLES}. */
export type RemoteRole = (typeof REMOTE_ROLES)[number];

/** Role of a caller, from the client certificate. `local` is the command line on the vault's own machine. */
export type Role = RemoteRole | "local";

/**
 * Role and name of a caller, from its certificate's URI. `certificate` is base64 of the certificate's DER.
 */
export type Caller = { role: Role; name: string; certificate?: string };

/** The action that a caller requested. */
export type StatementKind =
  | "key_create"
  | "key_disable"
  | "key_enable"
  | "key_destroy"
  | "key_destroy_cancel"
  | "key_erase"
  | "tenant_destroy"
  | "tenant_destroy_cancel"
  | "tenant_erase"
  | "state_adopt"
  | "head_accept"
  | "seal"
  | "unseal"
  | "backup"
  | "kek_rotate"
  | "kek_rewrap"
  | "kek_retire"
  | "ceiling_shrink"
  | "delegation"
  | "challenge"
  | "revocation_list"
  | "call";

/**
 * The outcome of an action. A `granted` record is written before the signature leaves the vault. If the
 * caller has no signature for a granted record, the answer was lost. `failed` means that the signature of a
 * `granted` record could not be created, or that the key or tenant to change had been altered in the
 * database. All other outcomes are codes of refusals.
 */
type Outcome = "granted" | "failed" | RefusalCode;

/**
 * A record as the vault's operations write it. `digest` is SHA-256 of the signed bytes, or of the state that
 * the record sets for a key or tenant. `detail` describes the subject of the action.
 */
export type AuditEntry = {
  caller: Caller;
  keyId?: string;
  purpose?: Purpose;
  statement: StatementKind;
  digest?: Uint8Array;
  outcome: Outcome;
  detail?: Readonly<Record<string, string>>;
};

/** The first record's code is computed with this value in place of a previous record's code. */
export const GENESIS = Buffer.alloc(32);

/** Returns the record for an entry, with its number and time but without its code. */
export function createRecord(entry: AuditEntry, seq: number, recordedAt: Date): Omit<AuditRow, "mac"> {
  return {
    seq,
    recorded_at: recordedAt,
    caller: entry.caller.name,
    role: entry.caller.role,
    key_id: entry.keyId ?? null,
    purpose: entry.purpose ?? null,
    statement: entry.statement,
    digest: entry.digest === undefined ? null : Buffer.from(entry.digest),
    outcome: entry.outcome,
    detail: { ...entry.detail },
  };
}

/**
 * Returns the {@link recordBytes} of a stored record, or `undefined` if it has no canonical form, because it
 * was altered.
 */
export function storedBytes(record: AuditRow): Uint8Array | undefined {
  try {
    return recordBytes(record);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** Returns the bytes that the audit key authenticates: canonical JSON of every column except `mac`. */
export function recordBytes(record: Omit<AuditRow, "mac">): Uint8Array {
  return canonicalBytes({
    seq: record.seq,
    recorded_at: record.recorded_at.toISOString(),
    caller: record.caller,
    role: record.role,
    key_id: record.key_id,
    purpose: record.purpose,
    statement: record.statement,
    digest: record.digest?.toString("base64") ?? null,
    outcome: record.outcome,
    detail: record.detail,
  });
}
