import { X509Certificate } from "node:crypto";
import type { TlsConfig } from "../config.ts";
import { reasonOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { isTrusted, ListGone, readMaterial, type TlsMaterial } from "./material.ts";

/**
 * The TLS files in force. They are read again while the vault runs, so that they can be exchanged without a
 * stop.
 */
export type Trust = {
  material(): TlsMaterial;
  /** Counts up whenever other files are in force. */
  generation(): number;
  /** Whether a certificate that was let in would still be. */
  accepts(certificate: X509Certificate): boolean;
  /** Calls `apply` with every material that comes into force from now on. */
  onChange(apply: (material: TlsMaterial) => void): void;
  /**
   * Looks at the files now, after the looks under way. Files that are damaged, do not belong together or are
   * gone are logged and change nothing. A revocation takes effect immediately; one that was taken off the
   * list stays until the list has not changed for a second, because it may be being written.
   */
  refresh(): Promise<void>;
  stop(): void;
};

/**
 * Whether a certificate, base64 of its DER, would be let in at `now`: trusted, not revoked, not expired.
 * False for anything that is not a certificate.
 */
export type AcceptsCertificate = (certificate: string, now: Date) => boolean;

const EVERY_MS = 2_000;
const QUIET_MS = 1_000;

/**
 * Reads the TLS files, and then every two seconds. Rejects with a `UserError` when they cannot be used at the
 * start.
 */
export async function openTrust(files: TlsConfig, log: Logger): Promise<Trust> {
  let material = await readMaterial(files);
  let generation = 0;
  let told = "";
  let listed = { revoked: material.revoked, since: performance.now() };
  let looks = Promise.resolve();
  /**
   * The certificates that were revoked when the list was found gone: a new list does not let them in again.
   */
  let lost: ReadonlySet<string> = new Set();
  const listeners: ((material: TlsMaterial) => void)[] = [];

  /** The certificates that a list revokes, as it was just read. */
  function revokedBy(revoked: ReadonlySet<string>): ReadonlySet<string> {
    const now = performance.now();
    if (!isEqual(listed.revoked, revoked)) listed = { revoked, since: now };
    return now - listed.since >= QUIET_MS ? revoked : material.revoked.union(revoked);
  }

  /** Logs once why files are not used as they are; nothing when they are. */
  function tell(reason: string): void {
    if (reason !== "" && reason !== told) log.error({ event: "tls_not_reloaded", reason });
    told = reason;
  }

  /** The certificates that a list revokes, as it was just read, and those of one that was gone before it. */
  function withLost(revoked: ReadonlySet<string>): ReadonlySet<string> {
    const missing = lost.difference(revoked).size;
    if (missing === 0) lost = new Set();
    const lacks = `${files.revokedFile} was gone, and the list that is there now lacks ${missing} of its serial numbers, which stay revoked: put them back, or start the vault anew to let them in`;
    tell(missing === 0 ? "" : lacks);
    return revokedBy(revoked).union(lost);
  }

  async function look(): Promise<void> {
    try {
      const read = await readMaterial(files, material.revoked);
      const next = { ...read, revoked: withLost(read.revoked) };
      if (isSame(material, next)) return;
      for (const apply of listeners) apply(next);
      material = next;
      generation += 1;
      log.info({ event: "tls_reloaded", revoked: next.revoked.size });
    } catch (error) {
      if (error instanceof ListGone) lost = material.revoked;
      tell(reasonOf(error));
    }
  }

  function refresh(): Promise<void> {
    looks = looks.then(look);
    return looks;
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

/** Judges certificates by the TLS files in force. */
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
