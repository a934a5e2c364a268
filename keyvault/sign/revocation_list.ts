import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type pg from "pg";
import {
  type RevocationList,
  revocationListSignBytes,
} from "../../src/protocol/statements/revocation_list.ts";
import type { LastList } from "../audit/last_states.ts";
import type { Caller } from "../audit/record.ts";
import { available, type Database } from "../db/database.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import {
  type BuildBytes,
  CLOCK_TOLERANCE_SECONDS,
  clockRefusal,
  type Grant,
  type SigningParts,
  signStatement,
} from "./statement.ts";

/** The certificates to list, and their expiry times in Unix seconds in the same order. 0 means never. */
export type ListRequest = {
  tenant: string;
  updated_at: number;
  revoked_certs: string[];
  expires_at: number[];
};

/**
 * Signs the list of all certificates that an account has revoked, or refuses. `updated_at` must be within 60
 * s of the vault's clock and later than that of the last list. A list must contain every certificate of the
 * last list that has not expired, by the latest expiry time ever given for it. So a caller cannot undo a
 * revocation. The last list may be signed again, because the first response may have been lost. Rejects with
 * `VaultError key_damaged` if the stored last list was altered.
 */
export type SignRevocationList = (
  caller: Caller,
  keyId: string,
  request: ListRequest,
) => Promise<RevocationList | Refusal>;

/** Dependencies of signing revocation lists, in addition to those of signing in general. */
export type ListSigningParts = SigningParts & { database: Database };

const NOTHING: Listed = { certificates: [], expiresAt: [] };

/**
 * Creates the operation that signs revocation lists. Compares and stores a list before its transaction in the
 * journal, so that a long list delays no other call. The transaction checks that no newer list was signed.
 */
export function createListSigning(parts: ListSigningParts): SignRevocationList {
  const { journal, database, register } = parts;
  return async (caller, keyId, { tenant, expires_at: expiresAt, ...contents }) => {
    const fields = { issuer_id: keyId, ...contents };
    const { updated_at: updatedAt, revoked_certs: certificates } = fields;
    const bytes = revocationListSignBytes(fields);
    const digest = hash("sha256", bytes, "buffer");
    const readLast = () => register.lastList(keyId);
    let last: LastList | undefined;
    let kept: Kept | undefined;

    const call = {
      caller,
      keyId,
      tenant,
      purpose: "account_root",
      statement: "revocation_list",
      detail: { certificates: String(certificates.length) },
    } as const;
    const build: BuildBytes = async (_, now) => {
      last = readLast();
      const early = clockRefusal("updated_at", updatedAt, now) ?? notAfter(last, updatedAt, digest);
      if (early !== undefined) return early;
      const before = await listedBy(database, keyId, last);
      const next = follow(before, { certificates, expiresAt }, now);
      if (isRefusal(next)) return next;
      kept = keep(next);
      if (kept.digest !== last?.listed) await writeListed(database, keyId, kept);
      return bytes;
    };
    const grant: Grant = (entry, stillTrue) =>
      journal.change(async (client) => {
        if (kept === undefined || !stillTrue() || !isDeepStrictEqual(readLast(), last)) {
          return { value: false };
        }
        await dropOthers(client, keyId, kept.digest);
        const detail = { ...entry.detail, place: String(updatedAt), listed: kept.digest };
        return { value: true, entry: { ...entry, detail } };
      });
    const signed = await signStatement(parts, call, build, grant);
    return isRefusal(signed) ? signed : { ...fields, signature: signed.signature };
  };
}

/** Refuses a time that is not later than the last list's, unless the list is identical to the last list. */
function notAfter(last: LastList | undefined, updatedAt: number, digest: Buffer): Refusal | undefined {
  if (last === undefined || updatedAt > last.updatedAt) return undefined;
  if (updatedAt === last.updatedAt && digest.equals(last.digest)) return undefined;
  return refuse("policy_violation", `The list is not newer than the last one, of ${last.updatedAt}`);
}

/** Certificates of a list, and their expiry times in Unix seconds in the same order. 0 means never. */
export type Listed = { certificates: readonly string[]; expiresAt: readonly number[] };

/** A list as stored. `digest` is SHA-256 of its text, in base64, and is also in the list's audit record. */
type Kept = { text: string; digest: string };

/**
 * Returns the next list after `last`. Each entry has the later of its previous and its new expiry time.
 * Refuses if a certificate of `last` is missing that may not have expired at `now`, in Unix seconds.
 */
export function follow(last: Listed, { certificates, expiresAt }: Listed, now: number): Listed | Refusal {
  const grown = grow(last, { certificates, expiresAt });
  if (grown !== undefined) return grown;
  const before = new Map<string, number>();
  for (const [index, certificate] of last.certificates.entries()) {
    before.set(certificate, later(before.get(certificate), last.expiresAt[index]));
  }
  const ends = certificates.map((certificate, index) => later(before.get(certificate), expiresAt[index]));
  for (const certificate of certificates) before.delete(certificate);
  for (const [certificate, end] of before) {
    if (end === 0 || end >= now - CLOCK_TOLERANCE_SECONDS) {
      return refuse(
        "policy_violation",
        `The list lacks ${certificate}, which is on the last list and has not expired`,
      );
    }
  }
  return { certificates, expiresAt: ends };
}

/**
 * A much faster {@link follow}. Returns `undefined` unless the new list only appends certificates to `last`.
 */
function grow(last: Listed, { certificates, expiresAt }: Listed): Listed | undefined {
  let found = 0;
  const ends = certificates.map((certificate, index) => {
    if (certificate !== last.certificates[found]) return expiresAt[index] ?? 0;
    found += 1;
    return later(last.expiresAt[found - 1], expiresAt[index]);
  });
  return found === last.certificates.length ? { certificates, expiresAt: ends } : undefined;
}

function keep({ certificates, expiresAt }: Listed): Kept {
  const text = JSON.stringify({ certificates, expires_at: expiresAt });
  return { text, digest: digestOf(text) };
}

/**
 * Returns the stored entries of the last list. Returns none before the first list, or if the version that
 * signed the list did not store lists. Rejects with `VaultError key_damaged` if the stored list was altered
 * or removed.
 */
async function listedBy(database: Database, keyId: string, last: LastList | undefined): Promise<Listed> {
  const digest = last?.listed ?? null;
  if (digest === null) return NOTHING;
  const row = await available(() =>
    database("listed_certificates").where({ key_id: keyId, digest }).first("listed"),
  );
  if (row === undefined || digestOf(row.listed) !== digest) {
    throw new VaultError("key_damaged", "The record of the key's last revocation list was altered");
  }
  const { certificates, expires_at: expiresAt } = JSON.parse(row.listed);
  return { certificates, expiresAt };
}

async function writeListed(database: Database, keyId: string, { text, digest }: Kept): Promise<void> {
  const row = { key_id: keyId, digest, listed: text };
  await available(() =>
    database("listed_certificates").insert(row).onConflict(["key_id", "digest"]).merge(["listed"]),
  );
}

/** Deletes all lists of the key except this one, including lists that were stored but never signed. */
async function dropOthers(client: pg.Client, keyId: string, digest: string): Promise<void> {
  await client.query("delete from listed_certificates where key_id = $1 and digest <> $2", [keyId, digest]);
}

function later(one = -1, other = 0): number {
  return one === 0 || other === 0 ? 0 : Math.max(one, other);
}

function digestOf(text: string): string {
  return hash("sha256", text, "base64");
}
