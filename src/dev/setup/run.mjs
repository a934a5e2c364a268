import { once } from "node:events";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { spawnTied } from "../process/lifeline.mjs";
import { LOCKED_NODE } from "./node.mjs";

const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
/** Under npm, one Ctrl-C arrives twice within this many milliseconds: from the terminal and from npm. */
const SAME_MS = 200;
const GRACE_MS = 30_000;
const FOLLOW_MS = 1000;

/** Node's compile cache, so that the many processes of a run compile each source file once. */
const COMPILED = "node_modules/.cache/compiled";

/**
 * Runs the locked Node and returns its exit status. Forwards signals to it. The child stops when this process
 * or the npm that started this process is killed.
 *
 * @param {string} root
 * @param {string[]} args
 * @param {string | undefined} module Path of the PKCS#11 module.
 * @returns {Promise<number>}
 */
export async function runTarget(root, args, module) {
  const bin = join(root, "node_modules", ".bin");
  const child = spawnTied(join(root, LOCKED_NODE), ["--disable-sigusr1", ...args], {
    cwd: root,
    env: {
      NODE_COMPILE_CACHE: join(root, COMPILED),
      ...process.env,
      PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
      ...(module === undefined ? {} : { KEYVAULT_PKCS11_MODULE: module }),
    },
    stdio: ["inherit", "inherit", "inherit"],
    graceMs: GRACE_MS,
  });
  forwardSignals(child);
  if (process.env.npm_lifecycle_event !== undefined) {
    followNpm(child);
  }
  const [code, signal] = await once(child, "exit");
  return code ?? 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal)];
}

/** @param {import("node:child_process").ChildProcess} child */
function forwardSignals(child) {
  let last = Number.NEGATIVE_INFINITY;
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      const now = performance.now();
      if (now - last > SAME_MS) {
        child.kill(signal);
      }
      last = now;
    });
  }
}

/**
 * Stops the child when npm exits. npm is this process's parent, since npm's shell replaces itself by `exec`.
 *
 * @param {import("node:child_process").ChildProcess} child
 */
function followNpm(child) {
  const npm = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== npm) {
      clearInterval(timer);
      child.kill("SIGTERM");
    }
  }, FOLLOW_MS);
  timer.unref();
}
