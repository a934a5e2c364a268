import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { TlsConfig } from "../config.ts";
import { UserError } from "../errors.ts";
import { normalizeSerial } from "./revocations.ts";

/**
 * Contents of the TLS files: PEM bytes of the vault's server, parsed authorities, and revoked serial numbers.
 */
export type TlsMaterial = {
  ca: Buffer;
  cert: Buffer;
  key: Buffer;
  authorities: readonly X509Certificate[];
  revoked: ReadonlySet<string>;
};

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads the server's TLS files. Throws a `UserError` that names the file if a file is missing or damaged, or
 * if the key does not match the certificate.
 */
export async function readMaterial(
  files: Pick<TlsConfig, "caFile" | "certFile" | "keyFile">,
  revoked: ReadonlySet<string>,
): Promise<TlsMaterial> {
  const [ca, cert, key] = await Promise.all([
    readPem(files.caFile),
    readPem(files.certFile),
    readPem(files.keyFile),
  ]);
  const authorities = readCertificates(files.caFile, ca);
  if (authorities.length === 0) {
    throw new UserError(`${files.caFile} holds no certificate: put back a copy of it`);
  }
  const own = parse(files.certFile, () => new X509Certificate(cert));
  if (!own.checkPrivateKey(parse(files.keyFile, () => createPrivateKey(key)))) {
    throw new UserError(`${files.keyFile} is not the key of ${files.certFile}`);
  }
  return { ca: writeCertificates(authorities), cert, key, authorities, revoked };
}

/** Parses the PEM certificates in a file, in order. Throws a `UserError` that names the file. */
export function readCertificates(file: string, bytes: Buffer): X509Certificate[] {
  return parse(file, () =>
    (bytes.toString("latin1").match(PEM_CERTIFICATE) ?? []).map((pem) => new X509Certificate(pem)),
  );
}

/**
 * Returns certificates as PEM, each starting on its own line, so that OpenSSL reads all of them. In a file
 * that was concatenated by hand, two certificates may share a line.
 */
export function writeCertificates(certificates: readonly X509Certificate[]): Buffer {
  return Buffer.from(certificates.map((certificate) => certificate.toString()).join(""));
}

/**
 * Returns whether an authority issued this client certificate and no list revokes it. Ignores dates and role.
 */
export function isTrusted({ authorities, revoked }: TlsMaterial, certificate: X509Certificate): boolean {
  if (revoked.has(normalizeSerial(certificate.serialNumber))) return false;
  return authorities.some((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey));
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UserError(`${file} cannot be read: run "keyvault init", or put it back`, { cause: error });
  }
}

function parse<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UserError(`${file} is damaged`, { cause: error });
  }
}
