import { existsSync } from "node:fs";
import { join } from "node:path";
import { makePrivateFolder, writeFileDurably } from "../files.ts";
import {
  createAuthority,
  type Identity,
  issueCertificate,
  type Subject,
  type Validity,
} from "./authority.ts";
import { ENDS, isThere, readAuthority, requireTls } from "./inventory.ts";

const DAY_MS = 86_400_000;
/** How long an authority holds. */
export const AUTHORITY_DAYS = 3650;
const END_DAYS = 397;
const CLOCK_SKEW_MS = 300_000;

/** What was made, and what is not there and cannot be made because the authority's key was taken away. */
export type TlsInstalled = { created: string[]; absent: string[] };

/**
 * Makes the authority and the first certificates unless they are there, as `<name>.pem` and `<name>.key`:
 * `ca`, `server` for the vault, `api` and `admin` for its first callers. A certificate is never there without
 * its key: the key is written first. Where `ca.key` was taken away nothing is made. Throws as {@link
 * requireTls} does.
 */
export async function installTls(
  dir: string,
  serverNames: readonly string[],
  now: Date,
): Promise<TlsInstalled> {
  await makePrivateFolder(dir);
  await requireTls(dir);
  if (isThere(dir, "ca") && !existsSync(join(dir, "ca.key"))) {
    return { created: [], absent: ENDS.filter((name) => !isThere(dir, name)) };
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
  if (isThere(dir, name)) return;
  const identity = await make();
  await writeFileDurably(join(dir, `${name}.key`), identity.privateKey);
  await writeFileDurably(join(dir, `${name}.pem`), identity.certificate, 0o644);
  created.push(name);
}

/** From five minutes ago, for clocks that are behind, to `days` from now. */
export function validity(now: Date, days: number): Validity {
  return {
    notBefore: new Date(now.getTime() - CLOCK_SKEW_MS),
    notAfter: new Date(now.getTime() + days * DAY_MS),
  };
}
