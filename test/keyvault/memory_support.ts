import { closeSync, openSync, readFileSync, readSync } from "node:fs";

const CHUNK = 1 << 20;

/** True if this process may read another process' memory, which needs Linux and root. */
export const mayReadMemory = process.platform === "linux" && process.getuid?.() === 0;

/** Returns the names of the secrets whose bytes are in a writable region of a process' memory. */
export function findInMemory(pid: number, secrets: Record<string, Buffer>): string[] {
  return Object.keys(countInMemory(pid, secrets));
}

/** Counts the copies of each secret in the memory that {@link findInMemory} searches. */
export function countInMemory(pid: number, secrets: Record<string, Buffer>): Record<string, number> {
  const memory = openSync(`/proc/${pid}/mem`, "r");
  const found: Record<string, number> = {};
  const chunk = Buffer.alloc(CHUNK + 64);
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, "utf8").split("\n")) {
      const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
      if (from === undefined || to === undefined || line.includes("[vvar]")) continue;
      const end = Number.parseInt(to, 16);
      for (let at = Number.parseInt(from, 16); at < end; at += CHUNK) {
        const length = readRegion(memory, chunk, Math.min(chunk.length, end - at), at);
        const view = chunk.subarray(0, length);
        tally(found, view, secrets);
      }
    }
  } finally {
    closeSync(memory);
  }
  return found;
}

function tally(found: Record<string, number>, view: Buffer, secrets: Record<string, Buffer>): void {
  for (const [name, bytes] of Object.entries(secrets)) {
    const count = occurrences(view, bytes);
    if (count > 0) found[name] = (found[name] ?? 0) + count;
  }
}

function occurrences(view: Buffer, bytes: Buffer): number {
  let count = 0;
  for (let at = view.indexOf(bytes); at !== -1; at = view.indexOf(bytes, at + 1)) count += 1;
  return count;
}

function readRegion(memory: number, chunk: Buffer, length: number, at: number): number {
  try {
    return readSync(memory, chunk, 0, length, at);
  } catch {
    return 0;
  }
}
