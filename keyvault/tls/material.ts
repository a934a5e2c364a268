import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { TlsConfig } from "../config.ts";
import { UserError } from "../errors.ts";

/**
 * What the vault's own TLS end is made of, and whom it lets in: PEM bytes, parsed authorities, serial numbers
 * that were revoked.
 */
export type TlsMaterial = {
  ca: Buffer;
  cert: Buffer;
  key: Buffer;
  authorities: readonly X509Certificate[];
  revoked: ReadonlySet<string>;
};

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const SERIAL_LINE = /^([0-9a-f]{1,64})\s*(#.*)?$/;

/**
 * Reads the server's TLS files and the revocation list, whole and belonging together or not at all. `former`
 * is who was revoked until now: only without them is an absent list an empty one. Throws `UserError` naming
 * the file that is missing, damaged, or of another key
 */
export async function readMaterial(
  files: TlsConfig,
  former: ReadonlySet<string> = new Set(),
): Promise<TlsMaterial> {
  const [ca, cert, key, revoked] = await Promise.all([
    readPem(files.caFile),
    readPem(files.certFile),
    readPem(files.keyFile),
    readRevoked(files.revokedFile, former),
  ]);
  const authorities = readCertificates(files.caFile, ca);
  if (authorities.length === 0) throw new UserError(`${files.caFile} holds no certificate`);
  const own = parse(files.certFile, () => new X509Certificate(cert));
  if (!own.checkPrivateKey(parse(files.keyFile, () => createPrivateKey(key)))) {
    throw new UserError(`${files.keyFile} is not the key of ${files.certFile}`);
  }
  return { ca: writeCertificates(authorities), cert, key, authorities, revoked };
}

/**
 * The certificates in a file's bytes, PEM, in their order. Throws a `UserError` that names the file when one
 * is damaged.
 */
export function readCertificates(file: string, bytes: Buffer): X509Certificate[] {
  return parse(file, () =>
    (bytes.toString("latin1").match(PEM_CERTIFICATE) ?? []).map((pem) => new X509Certificate(pem)),
  );
}

/**
 * Certificates as OpenSSL reads all of them: each beginning on a line of its own, which they need not in a
 * file that was put together.
 */
export function writeCertificates(certificates: readonly X509Certificate[]): Buffer {
  return Buffer.from(certificates.map((certificate) => certificate.toString()).join(""));
}

/** A serial number as the list has it: lower-case hexadecimal without leading zeros. */
export function normaliseSerial(serial: string): string {
  return serial
    .replaceAll(":", "")
    .toLowerCase()
    .replace(/^0+(?=.)/, "");
}

/**
 * Whether a client's certificate is one of the authorities' and was not revoked. Its dates and role are
 * judged elsewhere.
 */
export function isTrusted({ authorities, revoked }: TlsMaterial, certificate: X509Certificate): boolean {
  if (revoked.has(normaliseSerial(certificate.serialNumber))) return false;
  return authorities.some((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey));
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UserError(`${file} cannot be read: run "keyvault init", or put it back`, { cause: error });
  }
}

/** The revocation list is gone from under a running vault. */
export class ListGone extends UserError {}

/**
 * The serial numbers on a revocation list, none when there is no such file and was none before. Throws a
 * `UserError` that names the first line that is not a serial number, or the file that is gone.
 */
export async function readRevoked(
  file: string,
  former: ReadonlySet<string> = new Set(),
): Promise<ReadonlySet<string>> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" && former.size === 0) return "";
    if (error.code === "ENOENT") {
      throw new ListGone(`${file} is gone: the certificates on it stay revoked until it is put back`);
    }
    throw new UserError(`${file} cannot be read`, { cause: error });
  });
  const serials = text.split("\n").flatMap((text, index) => {
    const line = text.trim();
    if (line === "" || line.startsWith("#")) return [];
    const [, serial] = SERIAL_LINE.exec(line.toLowerCase().replaceAll(":", "")) ?? [];
    if (serial !== undefined) return [normaliseSerial(serial)];
    throw new UserError(
      `${file}: line ${index + 1} is not a hexadecimal serial number; no revocation is read until it is corrected`,
    );
  });
  return new Set(serials);
}

function parse<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UserError(`${file} is damaged`, { cause: error });
  }
}
