import { hash } from "node:crypto";
import type pg from "pg";
import { available } from "../db/available.ts";
import type { Database } from "../db/database.ts";
import { type Refusal, refuse } from "../errors.ts";
import { CLOCK_TOLERANCE_SECONDS } from "./statement.ts";

/**
 * Certificates of a revocation list, and at the same place the Unix second at which each ends; 0 for one that
 * never does.
 */
export type Listed = { certificates: readonly string[]; expiresAt: readonly number[] };

/** A list as it is kept, and SHA-256 of that text in base64, which the audit record of the list has. */
export type Kept = { text: string; digest: string };

/**
 * The entries of a list of these certificates after `last`: each with the later of the ends that it had and
 * has. Refused when one is missing that has not surely expired at `now`, in Unix seconds.
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
        `The list lacks ${certificate}, which the last one has and which has not expired`,
      );
    }
  }
  return { certificates, expiresAt: ends };
}

/**
 * As {@link follow}, in a fraction of its time, where certificates were only added between those of the last
 * list; nothing for any other list.
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

/** A list as it is kept. */
export function keep({ certificates, expiresAt }: Listed): Kept {
  const text = JSON.stringify({ certificates, expires_at: expiresAt });
  return { text, digest: digestOf(text) };
}

/** The kept list of this digest; nothing when it was altered or taken away. */
export async function readListed(
  database: Database,
  keyId: string,
  digest: string,
): Promise<Listed | undefined> {
  const row = await available(() =>
    database("listed_certificates").where({ key_id: keyId, digest }).first("listed"),
  );
  if (row === undefined || digestOf(row.listed) !== digest) return undefined;
  const { certificates, expires_at: expiresAt } = JSON.parse(row.listed);
  return { certificates, expiresAt };
}

/** Keeps a list beside those that its key has; {@link dropOthers} makes it the only one. */
export async function writeListed(database: Database, keyId: string, { text, digest }: Kept): Promise<void> {
  const row = { key_id: keyId, digest, listed: text };
  await available(() =>
    database("listed_certificates").insert(row).onConflict(["key_id", "digest"]).merge(["listed"]),
  );
}

/**
 * Lets go of every list of a key but the one of this digest, those that were kept and never signed among
 * them.
 */
export async function dropOthers(client: pg.Client, keyId: string, digest: string): Promise<void> {
  await client.query("delete from listed_certificates where key_id = $1 and digest <> $2", [keyId, digest]);
}

function later(one = -1, other = 0): number {
  return one === 0 || other === 0 ? 0 : Math.max(one, other);
}

function digestOf(text: string): string {
  return hash("sha256", text, "base64");
}
