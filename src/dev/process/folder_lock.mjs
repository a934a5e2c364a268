import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 4;

/**
 * When a process was started, in the system's own words: with its id it names one process for ever, which the
 * id alone does not. Undefined when there is no such process, or only its exit status waits to be collected.
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
 * Locks a folder for this process until it releases it or ends. Of any number of processes at most one holds
 * a folder; what a dead one left behind does not count. Each candidate puts down a file named after itself
 * and only then looks around: if it sees another living one it withdraws, so two can never both stay.
 *
 * @param {string} folder Created when it is not there, in a folder that is; holds nothing but lock files.
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
 * @returns {boolean} False when it was there.
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
 * @param {string} folder
 * @param {string} own
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
