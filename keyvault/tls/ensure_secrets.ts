import { createPrivateKey, X509Certificate } from "node:crypto";
import { daysAfter } from "../clock.ts";
import { UserError } from "../errors.ts";
import {
  alternativeNames,
  createAuthority,
  type Identity,
  issueCertificate,
  type Subject,
} from "./authority.ts";
import { authorityOf } from "./inventory.ts";
import { AUTHORITY_DAYS, validity } from "./issue.ts";
import type { SecretFiles, Secrets } from "./kubernetes_secrets.ts";
import { readCertificates } from "./material.ts";

/** The Secrets to create, by name: the authority, and the certificates that it issues. */
export type CertificatePlan = {
  authority: string;
  ends: readonly { secret: string; subject: Subject }[];
  labels: Readonly<Record<string, string>>;
  /** Lifetime of certificates in days, and the number of days before expiry at which they are renewed. */
  days: number;
  renewDays: number;
};

/** The action taken for a Secret, and the expiry time of the certificate in it. */
export type EnsuredSecret = { secret: string; done: "made" | "renewed" | "kept"; not_after: string };

type Authority = Identity & { pem: string; all: readonly X509Certificate[] };

/**
 * Ensures that the authority exists, and that each certificate exists, comes from that authority, contains
 * its names, and remains valid for long enough. Writes the authority's Secret (`ca.pem`, `ca.key`) once.
 * Rewrites the others (`tls.crt`, `tls.key`, `ca.crt`) when they must be renewed. Safe to repeat and to run
 * from several processes. Throws `UserError` for a Secret with other content, and does not change that
 * Secret.
 */
export async function ensureCertificates(
  secrets: Pick<Secrets, "read" | "apply">,
  plan: CertificatePlan,
  now: Date,
): Promise<EnsuredSecret[]> {
  const { authority, made } = await ensureAuthority(secrets, plan, now);
  const done: EnsuredSecret[] = [
    { secret: plan.authority, done: made ? "made" : "kept", not_after: endOf(authority.certificate) },
  ];
  for (const end of plan.ends) done.push(await ensureEnd(secrets, plan, authority, end, now));
  return done;
}

async function ensureAuthority(
  secrets: Pick<Secrets, "read" | "apply">,
  { authority: name, labels }: CertificatePlan,
  now: Date,
): Promise<{ authority: Authority; made: boolean }> {
  const stored = await secrets.read(name);
  if (stored !== undefined) return { authority: readAuthority(name, stored), made: false };
  const { certificate, privateKey } = await createAuthority(validity(now, AUTHORITY_DAYS));
  const files = { "ca.pem": certificate, "ca.key": privateKey };
  const made = await secrets.apply({ name, type: "Opaque", immutable: true, labels, files });
  return { authority: readAuthority(name, (await secrets.read(name)) ?? {}), made };
}

function readAuthority(name: string, files: SecretFiles): Authority {
  const { "ca.pem": pem, "ca.key": key } = files;
  if (pem === undefined || key === undefined) {
    throw new UserError(`The Secret ${name} has no ca.pem or no ca.key: put the authority back`);
  }
  const place = `ca.pem of the Secret ${name}`;
  const all = readCertificates(place, pem);
  return { ...authorityOf(all, key.toString(), place), pem: pem.toString(), all };
}

async function ensureEnd(
  secrets: Pick<Secrets, "read" | "apply">,
  { labels, days, renewDays }: CertificatePlan,
  authority: Authority,
  { secret, subject }: CertificatePlan["ends"][number],
  now: Date,
): Promise<EnsuredSecret> {
  const stored = await secrets.read(secret);
  const present = stored && requireOwn(secret, stored, authority);
  const until = daysAfter(now, renewDays);
  if (present !== undefined && stored !== undefined && isGood(present, stored, authority, subject, until)) {
    return { secret, done: "kept", not_after: endOf(present) };
  }
  const { certificate, privateKey } = await issueCertificate(authority, subject, validity(now, days));
  await secrets.apply({
    name: secret,
    type: "kubernetes.io/tls",
    immutable: false,
    labels,
    files: { "tls.crt": certificate, "tls.key": privateKey, "ca.crt": authority.pem },
  });
  return { secret, done: present === undefined ? "made" : "renewed", not_after: endOf(certificate) };
}

/** Throws `UserError` unless one of the authorities issued the certificate in the Secret. */
function requireOwn(name: string, files: SecretFiles, { all }: Authority): X509Certificate {
  const [certificate] = readCertificates(
    `tls.crt of the Secret ${name}`,
    files["tls.crt"] ?? Buffer.alloc(0),
  );
  if (
    certificate !== undefined &&
    all.some((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey))
  ) {
    return certificate;
  }
  throw new UserError(
    `The Secret ${name} holds no certificate of this authority and was not changed: delete it to have it created again`,
  );
}

function isGood(
  certificate: X509Certificate,
  files: SecretFiles,
  authority: Authority,
  subject: Subject,
  until: Date,
): boolean {
  return (
    certificate.validToDate > until &&
    certificate.verify(new X509Certificate(authority.certificate).publicKey) &&
    files["ca.crt"]?.toString() === authority.pem &&
    isKeyOf(certificate, files["tls.key"]) &&
    namesIn(certificate) === namesOf(subject)
  );
}

function isKeyOf(certificate: X509Certificate, key: Buffer | undefined): boolean {
  try {
    return key !== undefined && certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

const PREFIXES: Readonly<Record<string, string>> = { dns: "DNS:", ip: "IP Address:", url: "URI:" };

function namesIn({ subjectAltName = "" }: X509Certificate): string {
  return subjectAltName.split(", ").sort().join();
}

function namesOf(subject: Subject): string {
  const names = alternativeNames(subject).map(({ type, value }) => `${PREFIXES[type]}${value}`);
  return names.sort().join();
}

function endOf(certificate: X509Certificate | string): string {
  return new X509Certificate(certificate.toString()).validToDate.toISOString();
}
