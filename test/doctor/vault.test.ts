import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthority, type Identity, issueCertificate } from "../../keyvault/tls/authority.ts";
import { vaultChecks } from "../../src/doctor/vault.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { rowsOf } from "./support.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const API = { kind: "client", role: "api", name: "api" } as const;

let vault: TestVault;
let folder: string;
let foreign: Identity;

beforeAll(async () => {
  vault = await startVault();
  folder = await mkdtemp(join(tmpdir(), "doctor-vault-"));
  foreign = await createAuthority({ notBefore: new Date(0), notAfter: new Date(Date.now() + 400 * DAY_MS) });
});
afterAll(async () => {
  await vault.close();
  await rm(folder, { recursive: true });
});

type Files = { ca: string; cert: string; key: string };

/** Runs the checks with the vault's own files, except those that are given. */
async function look(given: Partial<Files> = {}, url = vault.url, now?: () => Date) {
  const files = { ...(readIdentity(vault.home, "api") as Files), ...given };
  const path = (name: keyof Files) => join(folder, name);
  for (const name of ["ca", "cert", "key"] as const) await writeFile(path(name), files[name]);
  const environment = {
    VAULT_URL: url,
    VAULT_CA_FILE: path("ca"),
    VAULT_CERT_FILE: path("cert"),
    VAULT_KEY_FILE: path("key"),
  };
  return rowsOf(vaultChecks(), environment, { ...(now && { now }) });
}

const identityOf = ({ certificate, privateKey }: Identity) => ({ cert: certificate, key: privateKey });
const issued = (days: number) =>
  issueCertificate(foreign, API, { notBefore: new Date(0), notAfter: new Date(Date.now() + days * DAY_MS) });

test("both checks pass with an open vault and its own files", async () => {
  const rows = await look();
  expect(rows.vault).toMatchObject({ status: "ok", detail: expect.stringContaining("is ready to sign") });
  expect(rows["vault certificate"]).toMatchObject({ status: "ok" });
});

describe("the check of the certificate fails for", () => {
  test("a key of another certificate", async () => {
    const { privateKey } = await issued(100);
    const rows = await look({ key: privateKey });
    expect(rows["vault certificate"]).toMatchObject({
      status: "failed",
      detail: "the key in VAULT_KEY_FILE does not belong to the certificate in VAULT_CERT_FILE",
    });
    expect(rows.vault?.status).not.toBe("ok");
  });

  test("an authority of another vault", async () => {
    const rows = await look({ ca: foreign.certificate });
    expect(rows["vault certificate"]).toMatchObject({
      status: "failed",
      detail: "the authority in VAULT_CA_FILE did not issue the certificate in VAULT_CERT_FILE",
    });
    expect(rows.vault).toMatchObject({ status: "failed", action: expect.stringContaining("VAULT_CA_FILE") });
  });

  test.each([
    ["ended", -1, "failed", "ended on"],
    ["ends in 13 days", 13, "failed", "ends on"],
    ["ends in 15 days", 15, "ok", "valid until"],
  ])("one that %s, by its end only", async (_, days, status, detail) => {
    const rows = await look({ ca: foreign.certificate, ...identityOf(await issued(days)) });
    expect(rows["vault certificate"]).toMatchObject({ status, detail: expect.stringContaining(detail) });
  });

  test("files that are missing or not PEM", async () => {
    const { "vault certificate": row } = await look({ cert: "no certificate" });
    expect(row?.detail).toBe("VAULT_CERT_FILE contains no certificate in PEM");
    const environment = { VAULT_CA_FILE: "/none", VAULT_CERT_FILE: "/none", VAULT_KEY_FILE: "/none" };
    const rows = await rowsOf(vaultChecks(), environment);
    expect(rows["vault certificate"]?.detail).toBe("VAULT_CA_FILE names a file that cannot be read");
  });
});

describe("the check of the vault names", () => {
  test("a vault that refuses a certificate of another authority", async () => {
    const rows = await look(identityOf(await issued(100)));
    expect(rows.vault).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("a certificate that it does not accept"),
    });
  });

  test("a vault that does not listen", async () => {
    const rows = await look({}, "https://127.0.0.1:1");
    expect(rows.vault).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("nothing listens"),
    });
  });

  test("a host that the vault's certificate does not contain", async () => {
    const rows = await look({}, vault.url.replace("localhost", "127.0.0.2"));
    expect(rows.vault?.status).toBe("failed");
  });

  test("a sealed vault", async () => {
    const home = await createHome();
    await rm(home.config.token.pinFile);
    const sealed = await startVault(home);
    const rows = await look({}, sealed.url);
    await sealed.close();
    expect(rows.vault).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("is sealed"),
      action: expect.stringContaining("keyvault unseal"),
    });
  });
});
