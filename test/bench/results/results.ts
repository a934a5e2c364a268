import { mkdir, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Report, ratiosSeen, spreadOf } from "./figures.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const FOLDER = "bench-results";

export type Result = ReturnType<typeof resultOf>;

/** Returns a bench's result with all of its rounds and a description of the machine. */
export function resultOf(run: {
  name: string;
  title: string;
  options: readonly string[];
  begun: Date;
  report: Report;
}) {
  const { name, title, options, begun, report } = run;
  return {
    bench: name,
    title,
    options,
    begun_at: begun.toISOString(),
    machine: {
      cores: availableParallelism(),
      processor: cpus()[0]?.model.trim() ?? "unknown",
      memory_mib: Math.round(totalmem() / 2 ** 20),
      node: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
    },
    figures: report.figures.map((figure) => ({ ...figure, ...spreadOf(figure.name, figure.values) })),
    ratios: ratiosSeen(report),
  };
}

/** Writes a result and its tables, and replaces those of the previous run. Returns the path of the folder. */
export async function writeResult(result: Result, tables: string): Promise<string> {
  const folder = join(ROOT, FOLDER);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${result.bench}.json`), `${JSON.stringify(result, null, 2)}\n`);
  await writeFile(join(folder, `${result.bench}.txt`), `${result.title}\n\n${tables}`);
  return FOLDER;
}
