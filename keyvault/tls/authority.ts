import "reflect-metadata";
import { randomBytes, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { RemoteRole } from "../audit/record.ts";

/**
 * A certificate and its private key, both PEM. Each ends with a newline, so the texts can be concatenated.
 */
export type Identity = { certificate: string; privateKey: string };

/** Subject of a certificate: a client with a role, or a server with its host names. */
export type Subject =
  | { kind: "client"; role: RemoteRole; name: string }
  | { kind: "server"; names: readonly string[] };

/** Period in which a certificate is valid. */
export type Validity = { notBefore: Date; notAfter: Date };

const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNING_ALGORITHM = { name: "ECDSA", hash: "SHA-256" } as const;
const SERIAL_BYTES = 16;
const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

/** Creates the certificate authority for the vault's TLS. It cannot issue further authorities. */
export async function createAuthority(validity: Validity): Promise<Identity> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: "CN=Deputize key vault authority",
    ...validity,
    keys,
    signingAlgorithm: SIGNING_ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, privateKey: await exportKey(keys.privateKey) };
}

/** Issues a certificate with a fresh key. A client's only URI name is `deputize://role/<role>/<name>`. */
export async function issueCertificate(
  authority: Identity,
  subject: Subject,
  validity: Validity,
): Promise<Identity> {
  const issuer = new x509.X509Certificate(authority.certificate);
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: `CN=${commonName(subject)}`,
    issuer: issuer.subject,
    ...validity,
    signingKey: await importKey(authority.privateKey),
    publicKey: keys.publicKey,
    signingAlgorithm: SIGNING_ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([subject.kind === "client" ? CLIENT_AUTH : SERVER_AUTH], true),
      new x509.SubjectAlternativeNameExtension(alternativeNames(subject)),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, privateKey: await exportKey(keys.privateKey) };
}

/** Returns the URI that assigns a role to a client. */
export function roleUri(role: string, name: string): string {
  return `deputize://role/${role}/${name}`;
}

/** Returns the alternative names of a certificate for this subject. */
export function alternativeNames(subject: Subject): x509.JsonGeneralName[] {
  if (subject.kind === "client") return [{ type: "url", value: roleUri(subject.role, subject.name) }];
  return subject.names.map((name) => ({
    type: IPV4.test(name) || name.includes(":") ? "ip" : "dns",
    value: name,
  }));
}

function commonName(subject: Subject): string {
  return subject.kind === "client" ? `${subject.role} ${subject.name}` : "Deputize key vault";
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  return `${x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY")}\n`;
}

async function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey("pkcs8", x509.PemConverter.decodeFirst(pem), KEY_ALGORITHM, false, [
    "sign",
  ]);
}

function serialNumber(): string {
  const bytes = randomBytes(SERIAL_BYTES);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}
