import { createHash } from "node:crypto";
import { z } from "zod";
import { migrationNames } from "../db/migrate.ts";
import { UserError } from "../errors.ts";
import {
  type BackupSource,
  incompleteBackup,
  type Manifest,
  openLines,
  parseLine,
  readLine,
  SIGNED_VERSION,
  signerOf,
  UNSIGNED_VERSION,
} from "./format.ts";

/** First line of a backup of a later version. This version cannot read the remaining lines. */
const laterManifest = z.object({ kind: z.literal("manifest"), version: z.int().gt(SIGNED_VERSION) });

/**
 * Accepted origin of a backup: signed by this service key, or written by a version that did not sign. If the
 * origin is `undefined`, no backup is accepted.
 */
export type Origin = { serviceKey: string } | "unsigned" | undefined;

/** Result of reading a backup to its end. `digest` is SHA-256 of all lines except the signature line. */
export type Checked = { signedBy: string | null; manifest: Manifest; digest: Buffer };

/**
 * Reads a backup to its end and writes nothing. Throws `UserError` if the backup has a different origin, was
 * altered, is damaged, is cut off, or is for another recovery key.
 */
export async function checkBackup(
  backup: BackupSource,
  recoveryKey: string,
  origin: Origin,
): Promise<Checked> {
  const digest = createHash("sha256");
  let first: Buffer | undefined;
  let last: Buffer | undefined;
  for await (const line of openLines(backup(), recoveryKey)) {
    first ??= line;
    if (last !== undefined) digest.update(last);
    last = line;
  }
  if (first === undefined || last === undefined) throw incompleteBackup();
  const manifest = readManifest(first);
  if (manifest.version === UNSIGNED_VERSION) {
    requireUnsigned(origin);
    return { signedBy: null, manifest, digest: digest.update(last).digest() };
  }
  const whole = digest.digest();
  const signedBy = await signerOf(parseLine(last), manifest, whole);
  if (signedBy === undefined) {
    throw new UserError(
      "The backup's signature is not valid: no vault wrote it in this form; take another backup",
    );
  }
  requireSigner(signedBy, origin);
  return { signedBy, manifest, digest: whole };
}

/** Throws `UserError` if a later version wrote the rows, because this version cannot restore them. */
export function requireKnownTables({ migrations }: Manifest): void {
  const known = migrationNames();
  const newest = migrations.at(-1);
  if (newest === undefined) throw incompleteBackup();
  if (migrations.some((name, index) => name !== known[index])) {
    throw new UserError(
      `The backup has the tables of a newer version: restore it with a version that has ${newest}, this one ends with ${known.at(-1)}`,
    );
  }
}

function requireUnsigned(origin: Origin): void {
  if (origin !== "unsigned") {
    throw new UserError(
      "The backup is not signed: an earlier version wrote it, or anybody who has the public recovery key. If you know that it is genuine, pass --unsigned instead of --service-key",
    );
  }
}

function readManifest(line: Buffer): Manifest {
  const later = laterManifest.safeParse(parseLine(line));
  if (later.success) {
    throw new UserError(
      `The backup is of format ${later.data.version}: restore it with the version that made it`,
    );
  }
  const manifest = readLine(line);
  if (manifest.kind !== "manifest") throw incompleteBackup();
  return manifest;
}

function requireSigner(signedBy: string, origin: Origin): void {
  if (origin === undefined || origin === "unsigned") {
    throw new UserError(
      `The backup is signed by the service key ${signedBy}: if that is your vault's, pass it as --service-key`,
    );
  }
  if (signedBy !== origin.serviceKey) {
    throw new UserError(
      `The backup is signed by the service key ${signedBy}, not by ${origin.serviceKey} of --service-key: take a backup of that vault`,
    );
  }
}
