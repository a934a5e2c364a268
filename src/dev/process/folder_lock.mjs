import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 4;

/**
 * Returns a process's start time in the operating system's format. Process IDs are reused, but an ID and a
 * start time together identify one process. Returns undefined for a zombie or if no such process exists.
 *
 * @param {number} pid
 * @returns {string | undefined}
 */
export function processBirth(pid) {
  if (process.platform === "linux") {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
    } catch {
      return undefined;
    }
  }
  try {
    const args = ["-o", "stat=", "-o", "lstart=", "-p", String(pid)];
    const [state, ...start] = execFileSync("ps", args, { encoding: "utf8", env: { LC_ALL: "C" } })
      .trim()
      .split(/\s+/);
    return state?.startsWith("Z") ? undefined : start.join("-").replaceAll(":", "");
  } catch {
    return undefined;
  }
}

/**
 * Locks a folder until this process releases the lock or exits. At most one process holds the lock. Each
 * candidate first writes a file named after itself, then looks for files of living processes. A candidate
 * that finds a file of a different living process withdraws, so two candidates can never both succeed.
 *
 * @param {string} folder Created if missing; its parent must exist. It contains only lock files.
 * @returns {Promise<{ release(): void } | { heldBy: number }>}
 */
export async function lockFolder(folder) {
  makeFolder(folder);
  const own = `${process.pid}.${processBirth(process.pid)}`;
  for (let attempt = 1; ; attempt += 1) {
    if (!createFile(join(folder, own))) {
      return { heldBy: process.pid };
    }
    const other = firstLiving(folder, own);
    if (other === undefined) {
      return { release: () => rmSync(join(folder, own), { force: true }) };
    }
    rmSync(join(folder, own), { force: true });
    if (attempt === ATTEMPTS) {
      return { heldBy: other };
    }
    await sleep(10 + Math.random() * 40);
  }
}

/** @param {string} path */
function makeFolder(path) {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") {
      throw error;
    }
  }
}

/**
 * @param {string} path
 * @returns {boolean} False if the file already existed.
 */
function createFile(path) {
  try {
    writeFileSync(path, "", { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") {
      return false;
    }
    throw error;
  }
}

/**
 * Returns the process ID of a different living candidate, and removes the lock files of dead candidates.
 *
 * @param {string} folder
 * @param {string} own Name of this process's lock file.
 * @returns {number | undefined}
 */
function firstLiving(folder, own) {
  const living = readdirSync(folder).filter((name) => {
    const [pid, birth] = name.split(".");
    const lives = processBirth(Number(pid)) === birth;
    if (!lives) {
      rmSync(join(folder, name), { force: true });
    }
    return lives && name !== own;
  });
  return living[0] === undefined ? undefined : Number.parseInt(living[0], 10);
}
