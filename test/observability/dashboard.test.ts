import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { staleChartFiles } from "../../src/dev/chart/chart_files.ts";
import { knownMetrics, labelsIn, metricOf, metricsIn, seriesOf } from "../support/known_metrics.ts";

type Target = { refId: string; expr: string; legendFormat: string };
type Panel = {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: Target[];
};

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFile(join(ROOT, path), "utf8");
const dashboard: { panels: Panel[]; templating: { list: { name: string; definition?: string }[] } } =
  JSON.parse(await read("charts/deputize/files/dashboard.json"));
const targets = dashboard.panels.flatMap(({ title, targets: own = [] }) =>
  own.map((one) => ({ title, ...one })),
);
const metrics = knownMetrics();
const known = seriesOf(metrics);
/** Labels that Prometheus adds to every series. */
const SCRAPED = ["namespace", "instance", "job"];

describe("each query of the dashboard", () => {
  test.each(targets)("$title, $refId: uses existing metrics and labels", ({ expr, legendFormat }) => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    const labels = [...SCRAPED, ...names.flatMap((name) => known.get(name) ?? [])];
    const grouped = [...expr.matchAll(/(?:by|on) \(([a-z_, ]+)\)/g)].flatMap(([, list = ""]) =>
      list.split(", "),
    );
    expect([...labelsIn(expr), ...grouped].filter((label) => !labels.includes(label))).toEqual([]);
    const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
    expect(shown.filter((label) => !grouped.includes(label))).toEqual([]);
  });

  test.each(targets)("$title, $refId: selects the chosen namespaces", ({ expr }) => {
    const chosen = expr.split('{namespace=~"$namespace"').length - 1;
    expect(chosen).toBe(metricsIn(expr).length);
  });

  test.each(targets)("$title, $refId: applies rate() to counters only", ({ expr }) => {
    for (const name of metricsIn(expr)) {
      const { type } = metrics.find((one) => one.name === metricOf(name)) ?? {};
      const counts = type === "counter" || type === "histogram";
      expect(expr.includes(`rate(${name}`), name).toBe(counts || name.endsWith("_seconds_total"));
    }
  });
});

test("the chart contains the rules and the dashboard that npm run chart generates", async () => {
  expect((await staleChartFiles(ROOT)).filter((path) => path.startsWith("charts/deputize/files/"))).toEqual(
    [],
  );
});

test("the dashboard's namespace variable queries an existing metric", () => {
  const [namespace] = dashboard.templating.list.flatMap(({ definition }) => definition ?? []);
  expect(metricsIn(namespace ?? "").every((name) => known.has(name))).toBe(true);
  expect(metricsIn(namespace ?? "")).toHaveLength(1);
});

test("panels have unique ids and positions, and the queries of a panel have unique letters", () => {
  const { panels } = dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
  for (const { targets: own = [] } of panels) {
    expect(new Set(own.map(({ refId }) => refId)).size).toBe(own.length);
  }
});

test("each metric appears in a panel, in an alert, or in the list of unused metrics", async () => {
  const page = await read("docs/observability.md");
  const [, after = ""] = page.split("\n### Metrics that neither a panel nor an alert uses\n");
  const listed = metricsIn(after.split(/^#{2,3} /m)[0] ?? "");
  const rules = await Promise.all(
    ["api", "events", "migrate", "operator", "vault"].map(async (part) => {
      const { groups } = parse(await read(`docs/alerts/${part}.rules.yaml`));
      return groups.flatMap((group: { rules: { expr: string }[] }) => group.rules.map(({ expr }) => expr));
    }),
  );
  const used = new Set(
    [...targets.map(({ expr }) => expr), ...rules.flat()].flatMap(metricsIn).map(metricOf),
  );
  const isOfProcess = (name: string) => /^(?:process|nodejs)_/.test(name);
  const unused = metrics.map(({ name }) => name).filter((name) => !used.has(name) && !isOfProcess(name));
  expect(listed.sort()).toEqual(unused.sort());
});

describe("the documentation lists each metric with its labels", () => {
  const rowsOf = (text: string) =>
    [...text.matchAll(/^\| `([a-z_]+)` \| (?:`([a-z_, ]+)`)? ?\|/gm)].map(([, name, labels = ""]) => [
      name,
      ...labels.split(", ").filter(Boolean),
    ]);
  test("exactly once", async () => {
    const [own, events, operator] = await Promise.all(
      ["docs/observability.md", "docs/events.md", "docs/operator.md"].map(read),
    );
    const watch = operator?.slice(operator.indexOf("## What to watch"), operator.indexOf("### Alerts")) ?? "";
    const measured = events?.slice(events.indexOf("### Measurements"), events.indexOf("### Alerts")) ?? "";
    const [, after = ""] = own?.split("\n## Metrics\n") ?? [];
    const documented = [after.split(/^#{2,3} /m)[0] ?? "", watch, measured].flatMap(rowsOf);
    const real = metrics.filter(({ name }) => !/^(?:process|nodejs)_/.test(name));
    expect(documented.map(String).sort()).toEqual(
      real.map(({ name, labels }) => String([name, ...labels])).sort(),
    );
  });
});
