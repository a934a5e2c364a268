import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { makePrivateFolder, writeFileDurably } from "../files.ts";
import { Problem } from "../problem.ts";
import {
  createAuthority,
  type Identity,
  issueCertificate,
  type Subject,
  type Validity,
} from "./authority.ts";

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3650;
const END_DAYS = 397;
const CLOCK_SKEW_MS = 300_000;

/**
 * Makes the authority and the first certificates unless they are there, as `<name>.pem` and `<name>.key`: `ca`, `server` for the vault,
 * `api` and `admin` for its first callers. Gives the names of what it made. A certificate stands only beside its key: the key is written first.
 */
export async function installTls(dir: string, serverNames: readonly string[], now: Date): Promise<string[]> {
  await makePrivateFolder(dir);
  const created: string[] = [];
  const authority = await ensure(dir, "ca", created, () => createAuthority(validity(now, AUTHORITY_DAYS)));
  const subjects: Record<string, Subject> = {
    server: { kind: "server", names: serverNames },
    api: { kind: "client", role: "api", name: "api" },
    admin: { kind: "client", role: "admin", name: "admin" },
  };
  for (const [name, subject] of Object.entries(subjects)) {
    const identity = await ensure(dir, name, created, () =>
      issueCertificate(authority, subject, validity(now, END_DAYS)),
    );
    requireIssued(join(dir, `${name}.pem`), identity, authority);
  }
  return created;
}

async function ensure(
  dir: string,
  name: string,
  created: string[],
  make: () => Promise<Identity>,
): Promise<Identity> {
  const certificateFile = join(dir, `${name}.pem`);
  const keyFile = join(dir, `${name}.key`);
  if (existsSync(certificateFile)) return readIdentity(certificateFile, keyFile);
  const identity = await make();
  await writeFileDurably(keyFile, identity.privateKey);
  await writeFileDurably(certificateFile, identity.certificate, 0o644);
  created.push(name);
  return identity;
}

/** A certificate and the key it belongs to. Throws a `Problem` that names the file that is missing or damaged. */
export async function readIdentity(certificateFile: string, keyFile: string): Promise<Identity> {
  try {
    const [certificate, privateKey] = await Promise.all([
      readFile(certificateFile, "utf8"),
      readFile(keyFile, "utf8"),
    ]);
    if (new X509Certificate(certificate).checkPrivateKey(createPrivateKey(privateKey)))
      return { certificate, privateKey };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT")
      throw new Problem(`${certificateFile} or its key is damaged`, { cause: error });
  }
  throw new Problem(
    `${certificateFile} is there without its key ${keyFile}: put the key back, or remove both`,
  );
}

function requireIssued(file: string, identity: Identity, authority: Identity): void {
  const certificate = new X509Certificate(identity.certificate);
  if (certificate.verify(new X509Certificate(authority.certificate).publicKey)) return;
  throw new Problem(
    `${file} is not of the authority beside it: put that authority back, or remove the certificate`,
  );
}

/** From five minutes ago, for clocks that are behind, to `days` from now. */
export function validity(now: Date, days: number): Validity {
  return {
    notBefore: new Date(now.getTime() - CLOCK_SKEW_MS),
    notAfter: new Date(now.getTime() + days * DAY_MS),
  };
}
