import { appendFile, readFile } from "node:fs/promises";
import type { TlsConfig } from "../config.ts";
import { reasonOf, UserError } from "../errors.ts";

const SERIAL_LINE = /^([0-9a-f]{1,64})\s*(#.*)?$/;

/** The serial numbers that the vault has ever found on its list of revoked certificates. */
export type Revocations = {
  /**
   * Reads the list, and stores new serial numbers. Throws a `UserError` if a file cannot be read, or for a
   * line that is not a serial number.
   */
  read(): Promise<ReadonlySet<string>>;
  /** Returns why the list needs attention, or an empty string. */
  fault(): string;
};

/**
 * Opens the list and the file of all serial numbers that were ever on it. Emptying or deleting the list
 * therefore lifts no revocation, also after a restart. Throws like `read`, or if a new serial number cannot
 * be stored.
 */
export async function openRevocations(
  files: Pick<TlsConfig, "revokedFile" | "knownRevokedFile">,
): Promise<Revocations> {
  const { revokedFile, knownRevokedFile } = files;
  let text = await readList(revokedFile);
  let fault = "";
  let kept: ReadonlySet<string> = new Set();
  let revoked: ReadonlySet<string> = new Set();

  async function keep(lasting: ReadonlySet<string>): Promise<void> {
    const known = parseSerials(knownRevokedFile, await readList(knownRevokedFile));
    kept = kept.union(known).union(lasting);
    const lines = [...kept.difference(known)].map((serial) => `${serial}\n`).join("");
    // The first newline ends a line that a crash may have left incomplete.
    if (lines !== "") await appendFile(knownRevokedFile, `\n${lines}`, { mode: 0o600, flush: true });
  }

  async function read(): Promise<ReadonlySet<string>> {
    const next = await readList(revokedFile);
    const listed = parseSerials(revokedFile, next);
    revoked = revoked.union(listed);
    // Another process may still be writing the last line.
    const lines = next === text ? next : next.slice(0, next.lastIndexOf("\n") + 1);
    text = next;
    fault = await keep(parseSerials(revokedFile, lines)).then(() => "", reasonOf);
    const missing = kept.difference(listed).size;
    if (fault === "" && missing > 0) {
      fault = `${revokedFile} lacks ${missing} serial numbers that were on it, which stay revoked: put them back, or remove them from ${knownRevokedFile} too and restart the vault`;
    }
    revoked = revoked.union(kept);
    return revoked;
  }

  await keep(parseSerials(revokedFile, text));
  return { read, fault: () => fault };
}

/** Returns a serial number as in the revocation list: lower-case hexadecimal without leading zeros. */
export function normalizeSerial(serial: string): string {
  return serial
    .replaceAll(":", "")
    .toLowerCase()
    .replace(/^0+(?=.)/, "");
}

/**
 * Reads the serial numbers of a revocation list, none if there is no list. Throws a `UserError` that names
 * the first line that is not a serial number.
 */
export async function readRevoked(file: string): Promise<ReadonlySet<string>> {
  return parseSerials(file, await readList(file));
}

async function readList(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw new UserError(`${file} cannot be read: make it a file that this user may read`, { cause: error });
  });
}

function parseSerials(file: string, text: string): ReadonlySet<string> {
  const serials = text.split("\n").flatMap((row, index) => {
    const line = row.trim();
    if (line === "" || line.startsWith("#")) return [];
    const [, serial] = SERIAL_LINE.exec(line.toLowerCase().replaceAll(":", "")) ?? [];
    if (serial !== undefined) return [normalizeSerial(serial)];
    throw new UserError(
      `${file}: line ${index + 1} is not a hexadecimal serial number; no revocation is read until it is corrected`,
    );
  });
  return new Set(serials);
}
