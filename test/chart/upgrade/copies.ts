import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { CHART } from "../render.ts";

export type Copy = { chart: string; remove(): Promise<void> };

/** Keys of `changes` are paths of files. */
export async function copyOfChart(
  // biome-ignore lint/suspicious/noExplicitAny: files of any kind
  changes: Record<string, (content: any) => void>,
): Promise<Copy> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-copy-"));
  const chart = join(folder, "deputize");
  await cp(CHART, chart, { recursive: true });
  for (const [path, change] of Object.entries(changes)) {
    const content: unknown = parse(await readFile(join(chart, path), "utf8"));
    change(content);
    // Writes JSON, which is valid YAML.
    await writeFile(join(chart, path), JSON.stringify(content));
  }
  return { chart, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Creates a copy of the chart that differs only in its versions, like the next release. */
export const nextVersion = (): Promise<Copy> =>
  copyOfChart({
    "Chart.yaml": (content: { version: string; appVersion: string }) =>
      Object.assign(content, { version: "9.9.9", appVersion: "9.9.9" }),
  });
