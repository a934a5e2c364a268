import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";

const KEPT = 3;

/** Returns the path of a part's log in the state folder. */
export function logFile(folder: string, part: string): string {
  return join(folder, "logs", `${part}.log`);
}

/** Keeps the logs of three earlier runs as `.1` (the newest) to `.3`. Returns the new log's path. */
export async function rotateLog(folder: string, part: string): Promise<string> {
  const path = logFile(folder, part);
  await mkdir(join(folder, "logs"), { recursive: true, mode: 0o700 });
  for (let age = KEPT; age > 0; age -= 1) {
    const from = age === 1 ? path : `${path}.${age - 1}`;
    await rename(from, `${path}.${age}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") {
        throw error;
      }
    });
  }
  return path;
}
