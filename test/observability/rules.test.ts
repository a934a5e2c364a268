import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { knownMetrics, labelsIn, metricOf, metricsIn, OTHERS, seriesOf } from "../support/known_metrics.ts";
import { anchorsOf } from "../support/markdown.ts";

type Rule = {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook: string };
};
type Checked = { expr: string; exp_samples: { labels: string }[] };
type Suite = {
  rule_files: string[];
  tests: { input_series: { series: string }[]; promql_expr_test: Checked[] }[];
};

const ROOT = join(import.meta.dirname, "../..");
const ALERTS = join(import.meta.dirname, "alerts");
const read = (path: string) => readFile(join(ROOT, path), "utf8");

async function parsed<T>(folder: string, pattern: string): Promise<Record<string, T>> {
  const names = globSync(pattern, { cwd: folder });
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), "utf8")));
  return Object.fromEntries(names.map((name, index) => [name, parse(texts[index] ?? "") as T]));
}

const files = await parsed<{ groups: { rules: Rule[] }[] }>(join(ROOT, "docs/alerts"), "*.rules.yaml");
const rulesOf = (name: string) => files[name]?.groups.flatMap((group) => group.rules) ?? [];
const rules = Object.keys(files).flatMap(rulesOf);
const { "healthy.yaml": healthy, ...faults } = await parsed<Suite>(ALERTS, "*.yaml");
const known = new Map([...seriesOf(knownMetrics()), ...Object.entries(OTHERS)]);
const pages = new Map<string, string>(
  await Promise.all(
    [...new Set(rules.map(({ annotations }) => annotations.runbook.split("#")[0] ?? ""))].map(
      async (path): Promise<[string, string]> => [path, await read(path)],
    ),
  ),
);

describe("the alert rules", () => {
  test("have unique names, and are in the expected files", () => {
    expect(Object.keys(files).sort()).toEqual(
      ["api", "events", "migrate", "operator", "vault"].map((name) => `${name}.rules.yaml`),
    );
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });

  test.each(rules)("$alert uses existing metrics and labels", ({ expr, annotations }) => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    const labels = names.flatMap((name) => known.get(name) ?? []);
    const grouped = [...expr.matchAll(/by \(([a-z_, ]+)\)/g)].flatMap(([, list = ""]) => list.split(", "));
    const shown = [...JSON.stringify(annotations).matchAll(/\$labels\.([a-z_]+)/g)].map(
      ([, name = ""]) => name,
    );
    expect([...labelsIn(expr), ...grouped].filter((label) => !labels.includes(label))).toEqual([]);
    expect(shown.filter((label) => !grouped.includes(label))).toEqual([]);
  });

  test.each(rules)(
    "$alert describes what to do, and names an existing section of a page",
    ({ annotations, labels }) => {
      const { summary, description, runbook } = annotations;
      expect(["critical", "warning", "info"]).toContain(labels.severity);
      expect(summary.length).toBeLessThan(70);
      expect(description).toMatch(/\b(look|run|start|find|ask|see|set)\b/i);
      const [path = "", anchor = ""] = runbook.split("#");
      expect(anchorsOf(pages.get(path) ?? "")).toContain(anchor);
      const named = metricsIn(description).filter((name) => !known.has(name) && !known.has(`${name}_count`));
      expect(named).toEqual([]);
    },
  );

  test.each(rules)(
    "$alert has a test in which it fires and a test in which it does not",
    ({ alert, labels }) => {
      const checks = Object.values(faults)
        .flatMap((suite) => suite.tests.flatMap((each) => each.promql_expr_test))
        .filter(({ expr }) => expr === `ALERTS{alertname="${alert}", alertstate="firing"}`);
      const fired = checks.flatMap(({ exp_samples }) => exp_samples.map((sample) => sample.labels));
      expect(fired.filter((text) => text.includes(`severity="${labels.severity}"`))).not.toEqual([]);
      expect(checks.filter(({ exp_samples }) => exp_samples.length === 0)).not.toEqual([]);
    },
  );
});

test("the test of a healthy service covers all rules and every metric that they use", () => {
  const series = healthy?.tests.flatMap((each) => each.input_series.flatMap((one) => metricsIn(one.series)));
  expect(rules.flatMap(({ expr }) => metricsIn(expr)).filter((name) => !series?.includes(name))).toEqual([]);
  expect(healthy?.rule_files).toEqual(
    Object.keys(files)
      .sort()
      .map((name) => `../../../docs/alerts/${name}`),
  );
});

test("the tests of the rules use existing series", () => {
  const all = [healthy, ...Object.values(faults)].flatMap(
    (suite) => suite?.tests.flatMap((each) => each.input_series) ?? [],
  );
  const strange = all.filter(({ series }) => {
    const [name = ""] = metricsIn(series);
    const labels = labelsIn(series).filter((label) => label !== "instance");
    return labels.toSorted().join() !== known.get(name)?.toSorted().join();
  });
  expect(strange).toEqual([]);
});

describe("the documentation lists every alert with its severity for", async () => {
  test.each([
    ["events", "docs/events.md", "### Alerts"],
    ["api", "docs/observability.md", "## The API"],
    ["operator", "docs/operator.md", "### Alerts"],
    ["vault", "docs/keyvault_runbook.md", "## Alarms"],
    ["migrate", "docs/observability.md", "## Migrations"],
  ])("%s", async (name, path, heading) => {
    const page = await read(path);
    const [, after = ""] = page.split(`\n${heading}\n`);
    const section = after.split(/^#{2,3} /m)[0] ?? "";
    const rows = [...section.matchAll(/^\| `(Deputize\w+)` \| (\w+) \|/gm)].map(([, ...row]) => row);
    expect(rows).toEqual(rulesOf(`${name}.rules.yaml`).map(({ alert, labels }) => [alert, labels.severity]));
  });
});

test("docs/events.md names the alerts of each metric in the metric's row", async () => {
  const page = await read("docs/events.md");
  const measured = page.slice(page.indexOf("### Measurements"), page.indexOf("### Alerts"));
  const named = [
    ...measured.matchAll(/^\| `(deputize_[a-z_]+)` .*?((?:`Deputize\w+`(?:, )?)*) \|$/gm),
  ].flatMap(([, metric = "", alerts = ""]) =>
    [...alerts.matchAll(/Deputize\w+/g)].map(([alert]) => [alert, metric]),
  );
  const looked = rulesOf("events.rules.yaml")
    .filter(({ alert }) => alert !== "DeputizeLedgerDiffers")
    .flatMap(({ alert, expr }) => [...new Set(metricsIn(expr))].map((name) => [alert, metricOf(name)]));
  expect(named.map(String).sort()).toEqual(looked.map(String).sort());
});
