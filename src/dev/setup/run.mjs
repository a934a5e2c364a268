import { once } from "node:events";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { spawnTied } from "../lifeline.mjs";
import { LOCKED_NODE } from "./packages.mjs";

const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
/** A terminal's Ctrl-C comes twice under npm, from the terminal and from npm, within moments. */
const SAME_MS = 200;
const GRACE_MS = 30_000;

/**
 * Runs the locked Node and passes on its exit status, and to it the signals that this process gets. It ends when this
 * process is killed, and when npm, having started this process, is.
 *
 * @param {string} root
 * @param {string[]} args
 * @param {string | undefined} module Path of the PKCS#11 module.
 * @returns {Promise<number>}
 */
export async function runTarget(root, args, module) {
  const bin = join(root, "node_modules", ".bin");
  const child = spawnTied(join(root, LOCKED_NODE), args, {
    cwd: root,
    env: {
      ...process.env,
      PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
      ...(module === undefined ? {} : { KEYVAULT_PKCS11_MODULE: module }),
    },
    stdio: ["inherit", "inherit", "inherit"],
    graceMs: GRACE_MS,
  });
  forwardSignals(child);
  if (process.env.npm_lifecycle_event !== undefined) {
    followParent(child);
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

/** @param {import("node:child_process").ChildProcess} child */
function followParent(child) {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) {
      clearInterval(timer);
      child.kill("SIGTERM");
    }
  }, 500);
  timer.unref();
}
