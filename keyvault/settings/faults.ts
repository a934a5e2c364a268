import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

/** A fault of one setting. The message follows the setting's name. */
export type Fault = { name: string; message: string };

type File = { name: string; path: string };

/** Returns the faults of the TLS files of a server: files that are missing, damaged, or not a pair. */
export function tlsFaults({ ca, cert, key }: Record<"ca" | "cert" | "key", File>): Fault[] {
  const faults: Fault[] = [];
  const read = <T>({ name, path }: File, what: string, parse: (pem: Buffer) => T): T | undefined => {
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch {
      faults.push({ name, message: `${path} cannot be read: run "keyvault init", or put it back` });
      return undefined;
    }
    try {
      return parse(bytes);
    } catch {
      faults.push({ name, message: `${path} is not ${what} in PEM` });
      return undefined;
    }
  };
  read(ca, "a certificate", (pem) => new X509Certificate(pem));
  const certificate = read(cert, "a certificate", (pem) => new X509Certificate(pem));
  const privateKey = read<KeyObject>(key, "a private key without a passphrase", createPrivateKey);
  if (certificate !== undefined && privateKey !== undefined && !certificate.checkPrivateKey(privateKey)) {
    faults.push({ name: key.name, message: `${key.path} is not the key of ${cert.path}` });
  }
  return faults;
}

const PREFIX = "KEYVAULT_";
/** Variables that Kubernetes sets for each Service in a pod's namespace. */
const SERVICE_LINK =
  /_SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const SERVICE_PORT = /^(?:tcp|udp|sctp):\/\//;
/** The largest edit distance of a misspelled name. */
const NEAR = 2;

/** Returns a fault for each variable that is no setting, but has their prefix or almost a setting's name. */
export function misnamedFaults(
  environment: Readonly<Record<string, string | undefined>>,
  known: readonly string[],
): Fault[] {
  return Object.entries(environment).flatMap(([name, value]) => {
    if (value === undefined || known.includes(name)) return [];
    if (SERVICE_LINK.test(name) || (name.endsWith("_PORT") && SERVICE_PORT.test(value))) return [];
    const meant = nearest(name, known);
    if (meant !== undefined) return [{ name, message: `is not a setting: did you mean ${meant}?` }];
    return name.startsWith(PREFIX) ? [{ name, message: "is not a setting: remove it" }] : [];
  });
}

function nearest(name: string, known: readonly string[]): string | undefined {
  const written = name.toUpperCase().replaceAll(/[-.]/g, "_");
  const base = known.find((each) => written === `${each}_FILE`);
  if (base !== undefined) return base;
  const [best] = known
    .map((each) => ({ each, distance: editDistance(written, each) }))
    .filter(({ distance }) => distance <= NEAR)
    .sort((a, b) => a.distance - b.distance);
  return best?.each;
}

/** Returns how many characters to insert, delete, replace or swap with a neighbor. */
function editDistance(from: string, to: string): number {
  let [before, row] = [[] as number[], Array.from({ length: to.length + 1 }, (_, n) => n)];
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = at(row, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isSwap = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwap ? at(before, j - 2) + 1 : replaced;
      next.push(Math.min(at(row, j) + 1, at(next, j - 1) + 1, replaced, swapped));
    }
    [before, row] = [row, next];
  }
  return at(row, to.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
