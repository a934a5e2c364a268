import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));
/**
 * New objects are looked through each time there are 8 MB of them, and nothing makes the heap be collected as
 * a whole.
 */
const FLAGS = [
  "--expose-gc",
  "--min-semi-space-size=8",
  "--max-semi-space-size=8",
  "--initial-old-space-size=512",
];

/** Bytes that are held longer than they are needed: until the heap is collected as a whole. */
export type LongLived = { heap: number; buffers: number };

/**
 * What `times` calls of a module's function leave behind, a call. `module` is a URL; its default export does
 * the work once. It runs in a process of its own.
 */
export async function longLived(module: URL, times: number): Promise<LongLived> {
  const args = [...FLAGS, CHILD, module.href, String(times)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as LongLived;
}
