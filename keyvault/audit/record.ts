import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { AuditRow, Purpose } from "../db/rows.ts";
import type { RefusalCode } from "../errors.ts";

/** Roles that a client's certificate can give; `backup` takes backups and does nothing else. */
export const REMOTE_ROLES = ["api", "admin", "auditor", "backup"] as const;

/** One of them. */
export type RemoteRole = (typeof REMOTE_ROLES)[number];

/**
 * Who made a call, as the client certificate says. `local` is the command line on the vault's own machine.
 */
export type Role = RemoteRole | "local";

/**
 * A caller: role and name of the certificate's `deputize://role/<role>/<name>`. `certificate` is the caller's
 * certificate, base64 of its DER, when there was one.
 */
export type Caller = { role: Role; name: string; certificate?: string };

/** What was asked for. */
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
 * How it ended: `granted` is written before a signature leaves, so a granted record without a signature in
 * the world means that the answer was lost; `failed` follows a `granted` one whose signature could not be
 * made, or says that what was to be changed had been altered; the others are the refusal's code.
 */
type Outcome = "granted" | "failed" | RefusalCode;

/**
 * One record as the operations write it. `digest` is SHA-256 of the signed bytes, or of the state that the
 * record gives a key or a tenant; `detail` names what the statement is about.
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

/** The code before the first record. */
export const GENESIS = Buffer.alloc(32);

/** An entry at its place in the chain, still without its code. */
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
 * As {@link recordBytes} of a stored record; undefined when it has no canonical form, which every record that
 * the vault wrote has.
 */
export function storedBytes(record: AuditRow): Uint8Array | undefined {
  try {
    return recordBytes(record);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/**
 * The bytes of a record that the audit key authenticates, after the previous record's code: canonical JSON of
 * every column but `mac`.
 */
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
