import "reflect-metadata";
import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { installTls, issueFiles, revokeCertificate, validity } from "../../../keyvault/tls/issue.ts";
import { readMaterial } from "../../../keyvault/tls/material.ts";
import { readRevoked } from "../../../keyvault/tls/revocations.ts";
import { openTrust } from "../../../keyvault/tls/trust.ts";

const NOW = new Date(Math.floor(Date.now() / 1000) * 1000);
const DAY_MS = 86_400_000;

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "keyvault-issue-"));
  onTestFinished(() => rm(dir, { recursive: true }));
});

const inDir = (file: string) => join(dir, file);
const read = async (file: string) => new X509Certificate(await readFile(inDir(file)));
const files = () => ({
  caFile: inDir("ca.pem"),
  certFile: inDir("server.pem"),
  keyFile: inDir("server.key"),
  revokedFile: inDir("revoked"),
  knownRevokedFile: inDir("known_revoked"),
});
const admin = { kind: "client", role: "admin", name: "ada" } as const;
const order = (replace = false) => ({ subject: admin, days: 30, stem: inDir("ada"), replace });

test("PEM files end with a newline, so that they can be concatenated", async () => {
  await installTls(dir, ["localhost"], NOW);
  for (const file of await readdir(dir)) {
    expect(await readFile(inDir(file), "utf8"), file).toMatch(/-----END [A-Z ]+-----\n$/);
  }
});

test("the first certificates are valid for 397 days and the authority for ten years, both starting five minutes ago", async () => {
  await installTls(dir, ["localhost"], NOW);
  for (const name of ["ca", "server", "api", "admin"]) {
    const { validFromDate, validToDate } = await read(`${name}.pem`);
    expect(validFromDate, name).toEqual(new Date(NOW.getTime() - 300_000));
    const days = name === "ca" ? 3_650 : 397;
    expect(validToDate, name).toEqual(new Date(NOW.getTime() + days * DAY_MS));
  }
});

test("an issued certificate is valid for the requested days, and its expiry is reported", async () => {
  await installTls(dir, ["localhost"], NOW);
  const issued = await issueFiles(dir, order(), NOW);
  const { validToDate } = await read("ada.pem");
  expect(validToDate).toEqual(validity(NOW, 30).notAfter);
  expect(issued.not_after).toBe(validToDate.toISOString());
});

test("keys are readable only by their owner, certificates by everybody, and all serial numbers differ", async () => {
  await installTls(dir, ["localhost"], NOW);
  await issueFiles(dir, order(), NOW);
  const mode = async (file: string) => (await stat(inDir(file))).mode & 0o777;
  const serials = new Set<string>();
  for (const name of ["ca", "server", "api", "admin", "ada"]) {
    expect(await mode(`${name}.key`), name).toBe(0o600);
    expect(await mode(`${name}.pem`), name).toBe(0o644);
    serials.add((await read(`${name}.pem`)).serialNumber);
  }
  expect(serials.size).toBe(5);
});

test("a server certificate distinguishes host names and addresses", async () => {
  const names = ["vault.internal", "10.0.0.1", "::1", "1.2.3.4.example"];
  await installTls(dir, names, NOW);
  expect((await read("server.pem")).subjectAltName).toBe(
    "DNS:vault.internal, IP Address:10.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:1.2.3.4.example",
  );
});

/** Creates a folder at the path of a file, so that the file cannot be written. */
async function block(file: string): Promise<void> {
  await mkdir(join(inDir(file), "in its place"), { recursive: true });
}

test("a certificate is written after its key, so an interruption leaves no certificate without a key", async () => {
  await block("ca.key");
  await expect(installTls(dir, ["localhost"], NOW)).rejects.toThrow();
  expect(existsSync(inDir("ca.pem"))).toBe(false);
  await rm(inDir("ca.key"), { recursive: true });
  await installTls(dir, ["localhost"], NOW);
  await block("ada.key");
  await expect(issueFiles(dir, order(true), NOW)).rejects.toMatchObject({ path: inDir("ada.key") });
  expect(existsSync(inDir("ada.pem"))).toBe(false);
});

test("neither an existing certificate nor an existing key is overwritten without --replace", async () => {
  await installTls(dir, ["localhost"], NOW);
  for (const file of ["ada.key", "ada.pem"]) {
    await writeFile(inDir(file), "precious");
    await expect(issueFiles(dir, order(), NOW), file).rejects.toThrow(/pass --replace/);
    expect(await readFile(inDir(file), "utf8")).toBe("precious");
    await rm(inDir(file));
  }
  await writeFile(inDir("ada.key"), "old");
  await issueFiles(dir, order(true), NOW);
  expect((await readdir(dir)).filter((file) => file.startsWith("ada"))).toEqual(["ada.key", "ada.pem"]);
  expect(await readFile(inDir("ada.key"), "utf8")).toMatch(/PRIVATE KEY/);
});

test("a revoked certificate whose subject has several parts becomes one line of the revocation list", async () => {
  const { webcrypto } = await import("node:crypto");
  const x509 = await import("@peculiar/x509");
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "0a0b",
    name: "O=Bank, OU=Payments, CN=mallory",
    notBefore: NOW,
    notAfter: NOW,
    keys,
    signingAlgorithm: algorithm,
  });
  await writeFile(inDir("odd.pem"), made.toString("pem"));
  expect(await revokeCertificate(inDir("revoked"), inDir("odd.pem"), NOW)).toBe("a0b");
  const text = await readFile(inDir("revoked"), "utf8");
  expect(text).toBe(`a0b # O=Bank OU=Payments CN=mallory, revoked ${NOW.toISOString()}\n`);
  expect([...(await readRevoked(inDir("revoked")))]).toEqual(["a0b"]);
});

test("a new revocation list is readable only by its owner", async () => {
  await installTls(dir, ["localhost"], NOW);
  const before = process.umask(0);
  await revokeCertificate(inDir("revoked"), inDir("api.pem"), NOW).finally(() => process.umask(before));
  expect((await stat(inDir("revoked"))).mode & 0o777).toBe(0o600);
});

test("readMaterial rejects files without an authority or with a key that does not match", async () => {
  await installTls(dir, ["localhost"], NOW);
  const material = () => readMaterial(files(), new Set());
  await material();
  const ca = await readFile(inDir("ca.pem"));
  await writeFile(inDir("ca.pem"), "no certificate\n");
  await expect(material()).rejects.toThrow(`${inDir("ca.pem")} holds no certificate`);
  await writeFile(inDir("ca.pem"), ca);
  await writeFile(inDir("server.key"), await readFile(inDir("api.key")));
  await expect(material()).rejects.toThrow(`${inDir("server.key")} is not the key of ${inDir("server.pem")}`);
  await rm(inDir("server.key"));
  await expect(material()).rejects.toThrow(
    `${inDir("server.key")} cannot be read: run "keyvault init", or put it back`,
  );
});

test("the log reports each reload and each new fault of the TLS files once", async () => {
  await installTls(dir, ["localhost"], NOW);
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: "info", base: null, timestamp: false },
    { write: (line) => void lines.push(JSON.parse(line)) },
  );
  const trust = await openTrust(files(), log);
  onTestFinished(() => trust.stop());
  await trust.refresh();
  expect(lines).toEqual([]);
  const key = await readFile(inDir("server.key"));
  const gone = `${inDir("server.key")} cannot be read: run "keyvault init", or put it back`;
  await rm(inDir("server.key"));
  for (let look = 0; look < 3; look += 1) await trust.refresh();
  expect(lines.splice(0)).toEqual([{ level: 50, event: "tls_not_reloaded", reason: gone }]);
  await writeFile(inDir("server.key"), "damaged");
  for (let look = 0; look < 2; look += 1) await trust.refresh();
  expect(lines.splice(0)).toEqual([
    { level: 50, event: "tls_not_reloaded", reason: `${inDir("server.key")} is damaged` },
  ]);
  await writeFile(inDir("server.key"), key);
  await trust.refresh();
  expect(lines).toEqual([]);
  await rm(inDir("server.key"));
  await trust.refresh();
  expect(lines.splice(0), "after it was well again").toHaveLength(1);
  await writeFile(inDir("server.key"), key);
  await writeFile(inDir("revoked"), "0a\n0b\n");
  await trust.refresh();
  expect(lines).toEqual([{ level: 30, event: "tls_reloaded", revoked: 2 }]);
});

test("an authority's certificate can only sign certificates", async () => {
  const x509 = await import("@peculiar/x509");
  const { certificate, privateKey } = await createAuthority(validity(NOW, 1));
  const usagesOf = (pem: string) => new x509.X509Certificate(pem).getExtension(x509.KeyUsagesExtension);
  expect(usagesOf(certificate)).toMatchObject({
    usages: x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
    critical: true,
  });
  const issued = await issueCertificate({ certificate, privateKey }, admin, validity(NOW, 1));
  expect(usagesOf(issued.certificate)).toMatchObject({
    usages: x509.KeyUsageFlags.digitalSignature,
    critical: true,
  });
});
