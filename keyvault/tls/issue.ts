import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { daysAfter } from "../clock.ts";
import { UserError } from "../errors.ts";
import { makePrivateFolder, writeFileDurably } from "../files.ts";
import {
  createAuthority,
  type Identity,
  issueCertificate,
  type Subject,
  type Validity,
} from "./authority.ts";
import { ENDS, hasCertificate, readAuthority, requireTls } from "./inventory.ts";
import { normalizeSerial, readRevoked } from "./revocations.ts";

/** Days for which an authority is valid. */
export const AUTHORITY_DAYS = 3650;
const END_DAYS = 397;
const CLOCK_SKEW_MS = 300_000;

/** `absent` contains missing certificates that cannot be created because the authority's key was removed. */
export type TlsInstalled = { created: string[]; absent: string[] };

/**
 * Creates the authority and the first certificates unless they exist. The files are `<name>.pem` and
 * `<name>.key`, where `<name>` is `ca`, `server` for the vault, or `api` and `admin` for its first callers.
 * Writes each key before its certificate, so no certificate exists without its key. Creates nothing if
 * `ca.key` was removed. Throws like {@link requireTls}.
 */
export async function installTls(
  dir: string,
  serverNames: readonly string[],
  now: Date,
): Promise<TlsInstalled> {
  await makePrivateFolder(dir);
  await requireTls(dir);
  if (hasCertificate(dir, "ca") && !existsSync(join(dir, "ca.key"))) {
    return { created: [], absent: ENDS.filter((name) => !hasCertificate(dir, name)) };
  }
  const created: string[] = [];
  await ensure(dir, "ca", created, () => createAuthority(validity(now, AUTHORITY_DAYS)));
  const authority = await readAuthority(dir);
  const subjects: Record<(typeof ENDS)[number], Subject> = {
    server: { kind: "server", names: serverNames },
    api: { kind: "client", role: "api", name: "api" },
    admin: { kind: "client", role: "admin", name: "admin" },
  };
  for (const name of ENDS) {
    await ensure(dir, name, created, () =>
      issueCertificate(authority, subjects[name], validity(now, END_DAYS)),
    );
  }
  return { created, absent: [] };
}

async function ensure(
  dir: string,
  name: string,
  created: string[],
  make: () => Promise<Identity>,
): Promise<void> {
  if (hasCertificate(dir, name)) return;
  const identity = await make();
  await writeFileDurably(join(dir, `${name}.key`), identity.privateKey);
  await writeFileDurably(join(dir, `${name}.pem`), identity.certificate, 0o644);
  created.push(name);
}

/** Returns a period that begins five minutes before `now`, for clocks that are behind. */
export function validity(now: Date, days: number): Validity {
  return { notBefore: new Date(now.getTime() - CLOCK_SKEW_MS), notAfter: daysAfter(now, days) };
}

/** An order for a certificate. The files are `<stem>.pem` and `<stem>.key`. */
export type CertificateOrder = { subject: Subject; days: number; stem: string; replace: boolean };

/** An issued certificate. The revocation list identifies it by its `serial`. */
export type IssuedCertificate = { certificate: string; key: string; serial: string; not_after: string };

/**
 * Issues a certificate with a fresh key from the authority in `tlsDir`. Writes the key first. Throws
 * `UserError` if the authority's key is missing, or if files exist and `replace` is false.
 */
export async function issueFiles(
  tlsDir: string,
  { subject, days, stem, replace }: CertificateOrder,
  now: Date,
): Promise<IssuedCertificate> {
  const authority = await readAuthority(tlsDir);
  const files = { certificate: `${stem}.pem`, key: `${stem}.key` };
  if (!replace && (existsSync(files.certificate) || existsSync(files.key))) {
    throw new UserError(`${files.certificate} or its key exists already: pass --replace to replace them`);
  }
  const identity = await issueCertificate(authority, subject, validity(now, days));
  await writeFileDurably(files.key, identity.privateKey);
  await writeFileDurably(files.certificate, identity.certificate, 0o644);
  const certificate = new X509Certificate(identity.certificate);
  return {
    ...files,
    serial: normalizeSerial(certificate.serialNumber),
    not_after: new Date(certificate.validTo).toISOString(),
  };
}

/**
 * Adds a certificate to the revocation list, once, and returns its serial number. Throws `UserError` if the
 * certificate or the list cannot be read, or if a line of the list is not a serial number.
 */
export async function revokeCertificate(
  revokedFile: string,
  certificateFile: string,
  now: Date,
): Promise<string> {
  const certificate = await readCertificate(certificateFile);
  const serial = normalizeSerial(certificate.serialNumber);
  const known = await readList(revokedFile);
  if (!known.split("\n").some((line) => line.startsWith(`${serial} `))) {
    const subject = certificate.subject.replaceAll(/[\r\n]+/g, " ");
    const end = known === "" || known.endsWith("\n") ? "" : "\n";
    const line = `${end}${serial} # ${subject}, revoked ${now.toISOString()}\n`;
    await appendFile(revokedFile, line, { mode: 0o600, flush: true });
  }
  await readRevoked(revokedFile);
  return serial;
}

async function readList(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw new UserError(`${file} cannot be read: make it a file that this user may read`, { cause: error });
  });
}

async function readCertificate(file: string): Promise<X509Certificate> {
  try {
    return new X509Certificate(await readFile(file));
  } catch (error) {
    throw new UserError(`${file} is not a readable certificate`, { cause: error });
  }
}
