import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import {
  type RevocationList,
  revocationListSignBytes,
} from "../../src/protocol/statements/revocation_list.ts";
import type { Caller } from "../audit/record.ts";
import type { LastList } from "../audit/register/register.ts";
import type { Database } from "../db/database.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import { dropOthers, follow, type Kept, keep, type Listed, readListed, writeListed } from "./listed.ts";
import { type BuildBytes, clockRefusal, type Grant, type SigningParts, signStatement } from "./statement.ts";

/**
 * The certificates to list. `expires_at` has the Unix second at which each ends, at the same place; 0 for one
 * that never does.
 */
export type ListRequest = {
  tenant: string;
  updated_at: number;
  revoked_certs: string[];
  expires_at: number[];
};

/**
 * Signs all certificates that an account has revoked, or refuses. `updated_at` is within 60 s of the vault's
 * clock and later than the last list's. A list only grows: it lacks no certificate of the last one that has
 * not expired, by the latest end that was ever said of it, so nobody who may have lists signed can take a
 * revocation back. The last list itself is signed again while it is in time, for its answer may have been
 * lost. Rejects with `VaultError key_damaged` when what is kept of the last list was altered.
 */
export type SignRevocationList = (
  caller: Caller,
  keyId: string,
  request: ListRequest,
) => Promise<RevocationList | Refusal>;

/** What signing lists needs besides what every signing does. */
export type ListSigningParts = SigningParts & { database: Database };

const NOTHING: Listed = { certificates: [], expiresAt: [] };

/**
 * Signing revocation lists on these parts. A list is compared with the last one, and stored, before its turn
 * in the audit, so that a long one delays nobody; in its turn the only check is that the last one is still
 * the last.
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

/** What the last list has; nothing before the first, and after one that was signed before lists were kept. */
async function listedBy(database: Database, keyId: string, last: LastList | undefined): Promise<Listed> {
  if (last === undefined || last.listed === null) return NOTHING;
  const listed = await readListed(database, keyId, last.listed);
  if (listed !== undefined) return listed;
  throw new VaultError("key_damaged", "The record of the key's last revocation list was altered");
}

/** Refuses a time that is not after the last list's, unless it is that list once more. */
function notAfter(last: LastList | undefined, updatedAt: number, digest: Buffer): Refusal | undefined {
  if (last === undefined || updatedAt > last.updatedAt) return undefined;
  if (updatedAt === last.updatedAt && digest.equals(last.digest)) return undefined;
  return refuse("policy_violation", `The list is not newer than the last one, of ${last.updatedAt}`);
}
