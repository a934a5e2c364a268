import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createAuthority } from "../../keyvault/tls/authority.ts";
import { createMetrics } from "../../src/metrics.ts";
import { showCertificateEnd } from "../../src/vault/credentials.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "certificate-end-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("the metric exports the current certificate's expiry time, and no value if there is no certificate", async () => {
  const [metrics, file] = [createMetrics(), join(folder, "client.pem")];
  showCertificateEnd(metrics, file);
  const shown = async () =>
    /^deputize_vault_certificate_expiry_timestamp_seconds (.*)$/m.exec(await metrics.registry.metrics())?.[1];
  expect(await shown()).toBeUndefined();
  const notBefore = new Date("2026-01-01T00:00:00Z");
  for (const notAfter of [new Date("2027-01-01T00:00:00Z"), new Date("2028-01-01T00:00:00Z")]) {
    await writeFile(file, (await createAuthority({ notBefore, notAfter })).certificate);
    expect(await shown()).toBe(String(notAfter.getTime() / 1000));
  }
  await writeFile(file, "half of a");
  expect(await shown()).toBeUndefined();
});
