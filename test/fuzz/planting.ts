import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { PlantedFault } from "./planted_faults.ts";

const PROJECT = resolve(import.meta.dirname, "../..");
const PARTS = ["package.json", "src/protocol", "test/fuzz", "test/conformance/extensions", "test/support"];

/** A copy of the fuzzer's files in a temporary folder, for planting faults. */
export type Planting = {
  folder: string;
  /** Throws `Error` unless the fault's text occurs exactly once. */
  plant(fault: PlantedFault): Promise<void>;
  restore(fault: PlantedFault): Promise<void>;
  remove(): Promise<void>;
};

export async function copySources(): Promise<Planting> {
  const folder = await mkdtemp(join(tmpdir(), "planted-"));
  for (const part of PARTS) await cp(join(PROJECT, part), join(folder, part), { recursive: true });
  await symlink(join(PROJECT, "node_modules"), join(folder, "node_modules"));
  const original = (file: string) => readFile(join(PROJECT, "src/protocol", file), "utf8");
  const write = (file: string, source: string) => writeFile(join(folder, "src/protocol", file), source);
  return {
    folder,
    plant: async ({ file, from, to }) => {
      const source = await original(file);
      if (source.split(from).length !== 2) throw new Error(`${file} has not exactly once: ${from}`);
      await write(
        file,
        source.replace(from, () => to),
      );
    },
    restore: async ({ file }) => write(file, await original(file)),
    remove: () => rm(folder, { recursive: true }),
  };
}
