import { X509Certificate } from "node:crypto";
import type { TlsConfig } from "../config.ts";
import { reasonOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { isTrusted, ListGone, readMaterial, type TlsMaterial } from "./material.ts";

/** The contents of the TLS files. The vault reloads them while it runs. */
export type Trust = {
  material(): TlsMaterial;
  generation(): number;
  accepts(certificate: X509Certificate): boolean;
  onChange(apply: (material: TlsMaterial) => void): void;
  /**
   * Reloads the files now, after reloads in progress. If files are damaged, missing or do not belong
   * together, logs this and changes nothing. A new revocation takes effect immediately. A serial number that
   * was removed from the list stays revoked until the list has not changed for a second, because another
   * process may still be writing the list.
   */
  refresh(): Promise<void>;
  stop(): void;
};

/** Returns whether a certificate, base64 of its DER, is trusted, not revoked, and not expired at `now`. */
export type AcceptsCertificate = (certificate: string, now: Date) => boolean;

const EVERY_MS = 2_000;
const QUIET_MS = 1_000;

/**
 * Loads the TLS files and reloads them every two seconds. Rejects with a `UserError` if the first load fails.
 */
export async function openTrust(files: TlsConfig, log: Logger): Promise<Trust> {
  let material = await readMaterial(files);
  let generation = 0;
  let loggedReason = "";
  let listed = { revoked: material.revoked, since: performance.now() };
  let reloads = Promise.resolve();
  /**
   * Serial numbers of a list whose file was found missing. They remain revoked even if a new list lacks them.
   */
  let missingSerials: ReadonlySet<string> = new Set();
  const listeners: ((material: TlsMaterial) => void)[] = [];

  /** A serial number that was removed stays revoked until the list has not changed for {@link QUIET_MS}. */
  function revokedBy(revoked: ReadonlySet<string>): ReadonlySet<string> {
    const now = performance.now();
    if (!isEqual(listed.revoked, revoked)) listed = { revoked, since: now };
    return now - listed.since >= QUIET_MS ? revoked : material.revoked.union(revoked);
  }

  /** Logs once per reason why the files are not in use. An empty reason means that they are in use. */
  function logReason(reason: string): void {
    if (reason !== "" && reason !== loggedReason) log.error({ event: "tls_not_reloaded", reason });
    loggedReason = reason;
  }

  /** Adds the serial numbers of a list whose file was found missing earlier. */
  function withLost(revoked: ReadonlySet<string>): ReadonlySet<string> {
    const missing = missingSerials.difference(revoked).size;
    if (missing === 0) missingSerials = new Set();
    const lacks = `${files.revokedFile} was gone, and the current list lacks ${missing} of its serial numbers, which stay revoked: put them back, or restart the vault to accept them`;
    logReason(missing === 0 ? "" : lacks);
    return revokedBy(revoked).union(missingSerials);
  }

  async function reload(): Promise<void> {
    try {
      const read = await readMaterial(files, material.revoked);
      const next = { ...read, revoked: withLost(read.revoked) };
      if (isSame(material, next)) return;
      for (const apply of listeners) apply(next);
      material = next;
      generation += 1;
      log.info({ event: "tls_reloaded", revoked: next.revoked.size });
    } catch (error) {
      if (error instanceof ListGone) missingSerials = material.revoked;
      logReason(reasonOf(error));
    }
  }

  function refresh(): Promise<void> {
    reloads = reloads.then(reload);
    return reloads;
  }

  const timer = setInterval(() => void refresh(), EVERY_MS).unref();
  return {
    material: () => material,
    generation: () => generation,
    accepts: (certificate) => isTrusted(material, certificate),
    onChange: (apply) => void listeners.push(apply),
    refresh,
    stop: () => clearInterval(timer),
  };
}

/** Returns a check of certificates against the current TLS files. */
export function acceptsBy(trust: Pick<Trust, "accepts">): AcceptsCertificate {
  return (text, now) => {
    try {
      const certificate = new X509Certificate(Buffer.from(text, "base64"));
      const isCurrent = certificate.validFromDate <= now && now <= certificate.validToDate;
      return isCurrent && trust.accepts(certificate);
    } catch {
      return false;
    }
  };
}

function isSame(left: TlsMaterial, right: TlsMaterial): boolean {
  return (
    left.ca.equals(right.ca) &&
    left.cert.equals(right.cert) &&
    left.key.equals(right.key) &&
    isEqual(left.revoked, right.revoked)
  );
}

function isEqual(left: ReadonlySet<string>, right: ReadonlySet<string>): boolean {
  return left.symmetricDifference(right).size === 0;
}
