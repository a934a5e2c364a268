import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));
/** Node flags: collect new objects after every 8 MB, and never collect the whole heap. */
const FLAGS = [
  "--expose-gc",
  "--min-semi-space-size=8",
  "--max-semi-space-size=8",
  "--initial-old-space-size=512",
];

/** Bytes of objects that are no longer needed but remain allocated until the whole heap is collected. */
export type LongLived = { heap: number; buffers: number };

/**
 * Returns the bytes that each call of the module's default export leaves allocated, averaged over `times`
 * calls in a separate process.
 */
export async function longLived(module: URL, times: number): Promise<LongLived> {
  const args = [...FLAGS, CHILD, module.href, String(times)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as LongLived;
}
