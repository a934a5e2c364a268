import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import type { Identity } from "./authority.ts";
import { readCertificates } from "./material.ts";

/** File names of the first certificates: the vault's own certificate, and those of its first callers. */
export const ENDS = ["server", "api", "admin"] as const;

/** Returns whether `<name>.pem` is in the folder. */
export function hasCertificate(dir: string, name: string): boolean {
  return existsSync(join(dir, `${name}.pem`));
}

/**
 * Checks that the files in the folder belong together and that missing ones can be created. Changes nothing.
 * Each certificate must have its key in the same folder and its issuer in `ca.pem`. Without `ca.key`, at
 * least the vault's own certificate must exist. Throws a `UserError` that names the file.
 */
export async function requireTls(dir: string): Promise<void> {
  const there = ENDS.filter((name) => hasCertificate(dir, name));
  const authorities = hasCertificate(dir, "ca") ? await readAuthorities(dir) : [];
  if (existsSync(join(dir, "ca.key")) && authorities.length > 0) {
    await readAuthority(dir);
  } else if (authorities.length > 0 && !there.includes("server")) {
    throw new UserError(
      `server.pem is missing and ca.key is not in ${dir}: issue it where ca.key is kept (keyvault cert issue --role server)`,
    );
  }
  for (const name of there) {
    const file = join(dir, `${name}.pem`);
    const certificate = await readPair(file, join(dir, `${name}.key`));
    if (!authorities.some(({ publicKey }) => certificate.verify(publicKey))) {
      throw new UserError(
        `${file} was not issued by the authority beside it: put that authority back, or remove the certificate`,
      );
    }
  }
}

/**
 * Returns the authority in `ca.pem` that matches `ca.key`. Throws a `UserError` if one of them is missing.
 */
export async function readAuthority(dir: string): Promise<Identity> {
  for (const name of ["ca.pem", "ca.key"]) {
    if (!existsSync(join(dir, name))) {
      throw new UserError(
        `${name} is not in ${dir}: run this command where that file is kept, or name that folder with --ca`,
      );
    }
  }
  const authorities = await readAuthorities(dir);
  const privateKey = await readFile(join(dir, "ca.key"), "utf8");
  return authorityOf(authorities, privateKey, join(dir, "ca.pem"));
}

/** Returns the authority whose certificate matches this key, or throws a `UserError` that names `place`. */
export function authorityOf(
  authorities: readonly X509Certificate[],
  privateKey: string,
  place: string,
): Identity {
  const matching = readKeyOf(authorities, privateKey);
  if (matching === undefined) throw new UserError(`${place} or its key is damaged: put back a copy of both`);
  return { certificate: matching.toString(), privateKey };
}

async function readAuthorities(dir: string): Promise<X509Certificate[]> {
  const file = join(dir, "ca.pem");
  const authorities = readCertificates(file, await readFile(file));
  if (authorities.length === 0) throw new UserError(`${file} or its key is damaged: put back a copy of both`);
  return authorities;
}

function readKeyOf(authorities: readonly X509Certificate[], privateKey: string): X509Certificate | undefined {
  try {
    const key = createPrivateKey(privateKey);
    return authorities.find((authority) => authority.checkPrivateKey(key));
  } catch {
    return undefined;
  }
}

async function readPair(certificateFile: string, keyFile: string): Promise<X509Certificate> {
  try {
    const certificate = new X509Certificate(await readFile(certificateFile));
    if (certificate.checkPrivateKey(createPrivateKey(await readFile(keyFile)))) return certificate;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw new UserError(`${certificateFile} or its key is damaged`, { cause: error });
    }
  }
  throw new UserError(
    `${certificateFile} exists without its key ${keyFile}: put the key back, or remove both`,
  );
}
