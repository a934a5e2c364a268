import { closeSync, openSync, readFileSync, readSync } from "node:fs";

const CHUNK = 1 << 20;

/** Reading another process' memory takes Linux and root. */
export const mayReadMemory = process.platform === "linux" && process.getuid?.() === 0;

/** Names of the secrets that stand, as bytes, in any writable region of a process' memory. */
export function findInMemory(pid: number, secrets: Record<string, Buffer>): string[] {
  const memory = openSync(`/proc/${pid}/mem`, "r");
  const found = new Set<string>();
  const chunk = Buffer.alloc(CHUNK + 64);
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, "utf8").split("\n")) {
      const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
      if (from === undefined || to === undefined || line.includes("[vvar]")) continue;
      const end = Number.parseInt(to, 16);
      for (let at = Number.parseInt(from, 16); at < end; at += CHUNK) {
        const length = readRegion(memory, chunk, Math.min(chunk.length, end - at), at);
        const view = chunk.subarray(0, length);
        for (const [name, bytes] of Object.entries(secrets)) if (view.includes(bytes)) found.add(name);
      }
    }
  } finally {
    closeSync(memory);
  }
  return [...found];
}

function readRegion(memory: number, chunk: Buffer, length: number, at: number): number {
  try {
    return readSync(memory, chunk, 0, length, at);
  } catch {
    return 0;
  }
}
