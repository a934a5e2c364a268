import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { installPackages } from "./packages.mjs";
import { SetupError } from "./report.mjs";
import { runTarget } from "./run.mjs";
import { findModule, installSystemPackages } from "./system.mjs";

const VITEST = ["node_modules/vitest/vitest.mjs", "run", "--config"];

/**
 * The npm scripts by name. `token` is true if the script needs a PKCS#11 module, `builder` if it builds
 * images, `publisher` if it copies images to a registry, and `light` if it needs no development package.
 *
 * @type {Record<string, { command: string[], token: boolean, builder?: boolean, publisher?: boolean, light?: boolean } | undefined>}
 */
const TARGETS = {
  start: { command: ["src/main.ts", "dev"], token: true, light: true },
  test: { command: [...VITEST, "test/vitest.config.ts"], token: true },
  "test:slow": { command: [...VITEST, "test/vitest.slow.config.ts"], token: true },
  "test:soak": { command: [...VITEST, "test/vitest.soak.config.ts"], token: true },
  "test:cluster": { command: [...VITEST, "test/vitest.cluster.config.ts"], token: false },
  bench: { command: ["test/bench/main.ts"], token: true },
  soak: { command: ["test/soak/main.ts"], token: false },
  fuzz: { command: ["test/fuzz/main.ts"], token: false },
  conformance: { command: ["test/conformance/main.ts"], token: true },
  contract: { command: ["test/specification/main.ts"], token: false },
  messages: { command: ["test/messages.ts"], token: false },
  schemas: { command: ["test/schemas.ts"], token: false },
  chart: { command: ["src/dev/chart/main.ts"], token: false },
  images: { command: ["src/dev/images/main.ts"], token: false, builder: true },
  release: { command: ["src/dev/release/main.ts"], token: false, builder: true, publisher: true },
  screenshots: { command: [...VITEST, "test/vitest.screenshots.config.ts"], token: false },
  deputize: { command: ["src/main.ts"], token: false, light: true },
  keyvault: { command: ["keyvault/main.ts"], token: true, light: true },
};

const ROOT = realpathSync(fileURLToPath(new URL("../../..", import.meta.url)));

/**
 * Installs what the target needs, runs the target, and exits with the target's status.
 *
 * @param {string[]} args The target's name, then arguments for it.
 */
export async function main([name = "", ...args]) {
  try {
    const target = TARGETS[name];
    if (target === undefined) {
      throw new SetupError(
        `There is no target "${name}"`,
        `Choose one of: ${Object.keys(TARGETS).join(", ")}`,
      );
    }
    await installSystemPackages(ROOT, target);
    await installPackages(ROOT, { dev: target.light !== true });
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
