import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority } from "../../keyvault/tls/authority.ts";

let created: Promise<VaultFiles> | undefined;

/** Settings of the API that name the files for its connection to the vault. */
export type VaultFiles = Record<"VAULT_CA_FILE" | "VAULT_CERT_FILE" | "VAULT_KEY_FILE", string>;

/** Returns valid files for an API without a vault. They are removed when the process exits. */
export function vaultFiles(): Promise<VaultFiles> {
  created ??= createFiles();
  return created;
}

async function createFiles(): Promise<VaultFiles> {
  const validity = { notBefore: new Date(0), notAfter: new Date("2100-01-01") };
  const { certificate, privateKey } = await createAuthority(validity);
  const folder = mkdtempSync(join(tmpdir(), "deputize-vault-files-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  // Some tests run an API as another user.
  chmodSync(folder, 0o755);
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(cert, certificate);
  writeFileSync(key, privateKey);
  return { VAULT_CA_FILE: cert, VAULT_CERT_FILE: cert, VAULT_KEY_FILE: key };
}
