import type { X509Certificate } from "node:crypto";
import type { TlsConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import { isTrusted, readMaterial, type TlsMaterial } from "./material.ts";

/** The TLS files in force. They are read again while the vault runs, so that they can be exchanged without a stop. */
export type Trust = {
  material(): TlsMaterial;
  /** Counts up whenever other files are in force. */
  generation(): number;
  /** Whether a certificate that was let in would still be. */
  accepts(certificate: X509Certificate): boolean;
  /** Calls `apply` with every material that comes into force from now on. */
  onChange(apply: (material: TlsMaterial) => void): void;
  /** Looks at the files now. Files that are damaged or do not belong together are told in the log and change nothing. */
  refresh(): Promise<void>;
  stop(): void;
};

const EVERY_MS = 2_000;

/** Reads the TLS files, and then every two seconds. Rejects with a `Problem` when they cannot be used at the start. */
export async function openTrust(files: TlsConfig, log: Logger): Promise<Trust> {
  let material = await readMaterial(files);
  let generation = 0;
  let told = "";
  const listeners: ((material: TlsMaterial) => void)[] = [];

  async function refresh(): Promise<void> {
    try {
      const next = await readMaterial(files);
      told = "";
      if (isSame(material, next)) return;
      for (const apply of listeners) apply(next);
      material = next;
      generation += 1;
      log.info({ event: "tls_reloaded", revoked: next.revoked.size });
    } catch (error) {
      const reason = error instanceof Error ? error.message : "unknown";
      if (reason !== told) log.error({ event: "tls_not_reloaded", reason });
      told = reason;
    }
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

function isSame(left: TlsMaterial, right: TlsMaterial): boolean {
  return (
    left.ca.equals(right.ca) &&
    left.cert.equals(right.cert) &&
    left.key.equals(right.key) &&
    left.revoked.symmetricDifference(right.revoked).size === 0
  );
}
