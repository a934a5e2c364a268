import { spawn } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { npmPackages, pythonPackages } from "../support/outside_tools.ts";
import { killHard, until } from "../support/process.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The folder with the products that the page about connecting shows. */
export const EXAMPLES = join(ROOT, "docs/examples/connect");
/** The example in each language. */
export const SHOPS = { JavaScript: "shop.mjs", Python: "shop.py" } as const;

/** A running example of a product. */
export type ShopProgram = { stop(): Promise<void> };

type Settings = { port: number; origin?: string; baseUrl: string; platformId: string; secret: string };

/** Installs the unmodified OAuth library of a language on first use. */
export function installLibrary(language: keyof typeof SHOPS) {
  if (language === "JavaScript") return npmPackages("openid-client-1", ["openid-client@6.9.0"]);
  return pythonPackages("connect-product-2", [
    ...["authlib==1.9.10", "fastapi==0.165.0", "httpx2==2.16.2", "itsdangerous==2.2.0", "uvicorn==0.54.0"],
  ]);
}

/**
 * Starts the example of a product, and waits until it answers. Browsers reach it at `origin`, by default on
 * loopback.
 */
export async function startShopProgram(
  language: keyof typeof SHOPS,
  { port, origin = `http://127.0.0.1:${port}`, baseUrl, platformId, secret }: Settings,
): Promise<ShopProgram> {
  const library = await installLibrary(language);
  if (library.missing !== undefined) throw new Error(library.missing);
  const folder = await mkdtemp(join(tmpdir(), "deputize-product-"));
  await copyFile(join(EXAMPLES, SHOPS[language]), join(folder, SHOPS[language]));
  if (language === "JavaScript") await linkModules(folder, library.folder);
  const [program, ...args] =
    language === "JavaScript"
      ? [process.execPath, SHOPS.JavaScript]
      : ["python3", "-m", "uvicorn", "shop:app", "--log-level", "warning", "--port", String(port)];
  const child = spawn(program, args, {
    cwd: folder,
    env: {
      ...{ PATH: process.env.PATH, PYTHONPATH: library.folder, SESSION_SECRET: "s".repeat(32) },
      ...{ PORT: String(port), ORIGIN: origin },
      ...{ BASE_URL: baseUrl, PLATFORM_ID: platformId, SIGNING_SECRET: secret },
    },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const answers = () =>
    fetch(`http://127.0.0.1:${port}`).then(
      () => true,
      () => false,
    );
  await until("the product listens", answers, 30_000);
  return {
    async stop() {
      await killHard(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function linkModules(folder: string, installed: string): Promise<void> {
  const [modules, theirs] = [join(folder, "node_modules"), join(installed, "node_modules")];
  await mkdir(modules);
  await symlink(join(ROOT, "node_modules/express"), join(modules, "express"));
  for (const name of (await readdir(theirs)).filter((each) => !each.startsWith("."))) {
    await symlink(join(theirs, name), join(modules, name));
  }
}
