import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Gauge } from "prom-client";
import type { Metrics } from "../metrics.ts";

/**
 * Shows when the certificate in a file ends, by which the vault knows this process. The file is read at each
 * look, as the client does every few seconds; while it holds no certificate there is no value.
 */
export function showCertificateEnd({ registry }: Pick<Metrics, "registry">, file: string): void {
  new Gauge({
    name: "deputize_vault_certificate_expiry_timestamp_seconds",
    help: "When the certificate ends by which the vault knows this process, in Unix seconds",
    registers: [registry],
    async collect() {
      // Not reset(), which would leave a 0 behind: the year 1970.
      this.remove();
      const end = await endOf(file);
      if (end !== undefined) this.set(end);
    },
  });
}

async function endOf(file: string): Promise<number | undefined> {
  try {
    return new X509Certificate(await readFile(file)).validToDate.getTime() / 1000;
  } catch {
    return undefined;
  }
}
