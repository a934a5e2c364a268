import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, readFile } from "node:fs/promises";
import { UserError } from "../errors.ts";
import { writeFileDurably } from "../files.ts";
import { issueCertificate, type Subject } from "./authority.ts";
import { validity } from "./install.ts";
import { readAuthority } from "./inventory.ts";
import { normaliseSerial, readRevoked } from "./material.ts";

/**
 * A certificate to issue: what it is for, for how long, and the files `<stem>.pem` and `<stem>.key` it goes
 * to.
 */
export type CertificateOrder = { subject: Subject; days: number; stem: string; replace: boolean };

/** A certificate that was issued. `serial` is what a revocation names. */
export type IssuedCertificate = { certificate: string; key: string; serial: string; not_after: string };

/**
 * Issues a certificate with a fresh key from the authority in `tlsDir`. The key's file is written first.
 * Throws `UserError` when the authority's key is not there, or files would be overwritten unasked
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
    serial: normaliseSerial(certificate.serialNumber),
    not_after: new Date(certificate.validTo).toISOString(),
  };
}

/**
 * Adds a certificate to the revocation list, once; gives its serial number. A running vault takes notice
 * within seconds. Throws `UserError` when the certificate or the list cannot be read, or the list has a line
 * for which the vault does not take it up
 */
export async function revokeCertificate(
  revokedFile: string,
  certificateFile: string,
  now: Date,
): Promise<string> {
  const certificate = await readCertificate(certificateFile);
  const serial = normaliseSerial(certificate.serialNumber);
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
    throw new UserError(`${file} cannot be read`, { cause: error });
  });
}

async function readCertificate(file: string): Promise<X509Certificate> {
  try {
    return new X509Certificate(await readFile(file));
  } catch (error) {
    throw new UserError(`${file} is not a readable certificate`, { cause: error });
  }
}
