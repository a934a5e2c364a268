import { X509Certificate } from "node:crypto";
import type { TlsConfig } from "../config.ts";
import { reasonOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { isTrusted, readMaterial, type TlsMaterial } from "./material.ts";
import { openRevocations } from "./revocations.ts";

/** The contents of the TLS files. The vault reloads them while it runs. */
export type Trust = {
  material(): TlsMaterial;
  generation(): number;
  accepts(certificate: X509Certificate): boolean;
  onChange(apply: (material: TlsMaterial) => void): void;
  /**
   * Reloads the files now, after reloads in progress. If files are damaged, missing or do not belong
   * together, logs this and continues with the former files. A new revocation takes effect in any case. A
   * serial number that was removed from the list stays revoked.
   */
  refresh(): Promise<void>;
  stop(): void;
};

/** Returns whether a certificate, base64 of its DER, is trusted, not revoked, and not expired at `now`. */
export type AcceptsCertificate = (certificate: string, now: Date) => boolean;

const EVERY_MS = 2_000;

/**
 * Loads the TLS files and reloads them every two seconds. Rejects with a `UserError` if the first load fails.
 */
export async function openTrust(files: TlsConfig, log: Logger): Promise<Trust> {
  const revocations = await openRevocations(files);
  let material = await readMaterial(files, await revocations.read());
  let generation = 0;
  let logged = "";
  let reloads = Promise.resolve();
  const listeners: ((material: TlsMaterial) => void)[] = [];
  logOnce();

  /** Logs once per reason why files are not in use, or what the list of revoked certificates lacks. */
  function logOnce(unused = ""): void {
    const [event, reason] =
      unused === "" ? ["revocation_list", revocations.fault()] : ["tls_not_reloaded", unused];
    if (reason !== "" && reason !== logged) log.error({ event, reason });
    logged = reason;
  }

  async function reload(): Promise<void> {
    let unused = "";
    try {
      const revoked = await revocations.read();
      const next = await readMaterial(files, revoked).catch((error: unknown) => {
        unused = reasonOf(error);
        return { ...material, revoked };
      });
      if (isSame(material, next)) return;
      for (const apply of listeners) apply(next);
      material = next;
      generation += 1;
      log.info({ event: "tls_reloaded", revoked: next.revoked.size });
    } catch (error) {
      unused = reasonOf(error);
    } finally {
      logOnce(unused);
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
