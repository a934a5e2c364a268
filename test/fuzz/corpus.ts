import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Finding } from "./loop.ts";

/** Where inputs that found something are kept: a folder per target, a file per input. */
export const CORPUS = resolve(import.meta.dirname, "corpus");

/** Keeps a finding's input; where. */
export async function keep({ target, input }: Finding, folder = CORPUS): Promise<string> {
  const file = join(folder, target, `${hash("sha256", input).slice(0, 16)}.bin`);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, input);
  return file;
}

/** All kept inputs; none where nothing was ever found. */
export async function keptInputs(
  folder = CORPUS,
): Promise<{ target: string; file: string; input: Uint8Array }[]> {
  if (!existsSync(folder)) return [];
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".bin"));
  return Promise.all(
    files.map(async ({ parentPath, name }) => ({
      target: basename(parentPath),
      file: name,
      input: await readFile(join(parentPath, name)),
    })),
  );
}
