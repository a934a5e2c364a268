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
      const end = await certificateEnd(file);
      if (end !== undefined) this.set(end.getTime() / 1000);
    },
  });
}

/** When the certificate in a file ends; undefined while the file holds none. */
export async function certificateEnd(file: string): Promise<Date | undefined> {
  try {
    return new X509Certificate(await readFile(file)).validToDate;
  } catch {
    return undefined;
  }
}
