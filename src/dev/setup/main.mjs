import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { installPackages } from "./packages.mjs";
import { runTarget } from "./run.mjs";
import { SetupError } from "./setup_error.mjs";
import { findModule, installSystemPackages } from "./system.mjs";
import { TARGETS } from "./targets.mjs";

/** The project's folder. */
const ROOT = realpathSync(fileURLToPath(new URL("../../..", import.meta.url)));

/**
 * Makes everything ready that the target needs, runs it with the locked Node, and takes over its exit status.
 *
 * @param {string[]} args The target's name, then arguments for it.
 */
export async function main([name = "", ...args]) {
  try {
    const target = TARGETS[name];
    if (target === undefined) {
      throw new SetupError(`There is no "${name}"`, `Choose one of: ${Object.keys(TARGETS).join(", ")}`);
    }
    await installSystemPackages(ROOT, { token: target.token });
    await installPackages(ROOT);
    process.exitCode = await runTarget(
      ROOT,
      [...target.command, ...args],
      target.token ? findModule() : undefined,
    );
  } catch (error) {
    if (!(error instanceof SetupError)) {
      throw error;
    }
    console.error(`${error.message}\n${error.remedy}`);
    process.exitCode = 1;
  }
}
