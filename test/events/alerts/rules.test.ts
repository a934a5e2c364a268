import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { createReconciliation } from "../../../src/accounts/ledger/reconcile_hourly.ts";
import { createNoticeMetrics } from "../../../src/accounts/notices/metrics.ts";
import { systemClock } from "../../../src/clock.ts";
import type { Database } from "../../../src/db/database.ts";
import { lagState } from "../../../src/events/kafka/lag_state.ts";
import { createEventMetrics } from "../../../src/events/metrics/event_metrics.ts";
import { eventStates } from "../../../src/events/metrics/event_states.ts";
import { createMeasurements } from "../../../src/events/metrics/measurements.ts";

type Rule = {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook: string };
};
type Checked = { expr: string; exp_samples: { labels: string }[] };
type Suite = { tests: { input_series: { series: string }[]; promql_expr_test: Checked[] }[] };

const ROOT = join(import.meta.dirname, "../../..");
const page = await readFile(join(ROOT, "docs/events.md"), "utf8");
const file: { groups: { rules: Rule[] }[] } = parse(
  await readFile(join(ROOT, "docs/alerts/events.rules.yaml"), "utf8"),
);
const rules = file.groups.flatMap((group) => group.rules);
const suites: Record<string, Suite> = Object.fromEntries(
  await Promise.all(
    globSync("*.yaml", { cwd: import.meta.dirname }).map(async (name) => [
      name,
      parse(await readFile(join(import.meta.dirname, name), "utf8")),
    ]),
  ),
);
const { "healthy.yaml": healthy, ...faults } = suites;

/** Every metric that the worker or the API shows of events, by the labels that its series may have. */
function knownSeries(): Map<string, string[]> {
  const registry = new Registry();
  const [clock, log, database] = [systemClock, pino({ level: "silent" }), {} as Database];
  createEventMetrics({ registry, clock });
  createNoticeMetrics({ registry });
  createReconciliation({ database, log, metrics: { registry } });
  const measurements = createMeasurements({ registry, clock, log });
  for (const state of [...eventStates(database, []), lagState({} as never, "", [])]) measurements.add(state);
  return new Map(
    registry.getMetricsAsArray().flatMap((metric) => {
      const { name, type, labelNames } = metric as unknown as {
        name: string;
        type: string;
        labelNames: string[];
      };
      const names =
        type === "histogram" ? ["_count", "_sum", "_bucket"].map((end) => `${name}${end}`) : [name];
      return names.map((each) => [each, labelNames] as const);
    }),
  );
}
const known = knownSeries();
const metricsIn = (text: string) => [...text.matchAll(/\bdeputize_[a-z_]+/g)].map(([name]) => name);
const labelsIn = (text: string) => [...text.matchAll(/([a-z_]+)[!=]~?"/g)].map(([, name = ""]) => name);

describe("each rule", () => {
  test.each(rules)("$alert names metrics and labels that there are", ({ expr }) => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    const labels = names.flatMap((name) => known.get(name) ?? []);
    const grouped = [...expr.matchAll(/by \(([a-z, ]+)\)/g)].flatMap(([, list = ""]) => list.split(", "));
    expect([...labelsIn(expr), ...grouped].filter((label) => !labels.includes(label))).toEqual([]);
  });

  test.each(rules)("$alert says what to do and where to read on", ({ annotations }) => {
    const { summary, description, runbook } = annotations;
    expect(summary.length).toBeLessThan(70);
    expect(description).toMatch(/\b(look|run|start|find|ask|see|set)\b/i);
    expect(runbook).toBe("docs/events.md#alerts");
    expect(page).toContain("\n### Alerts\n");
  });

  test.each(rules)("$alert is tested to fire and not to fire", ({ alert, labels }) => {
    const checks = Object.values(faults)
      .flatMap((suite) => suite.tests.flatMap((each) => each.promql_expr_test))
      .filter(({ expr }) => expr === `ALERTS{alertname="${alert}", alertstate="firing"}`);
    const fired = checks.flatMap(({ exp_samples }) => exp_samples.map((sample) => sample.labels));
    expect(fired.filter((text) => text.includes(`severity="${labels.severity}"`))).not.toEqual([]);
    expect(checks.filter(({ exp_samples }) => exp_samples.length === 0)).not.toEqual([]);
  });
});

test("the healthy service has every metric that a rule looks at", () => {
  const series = healthy?.tests.flatMap((each) => each.input_series.flatMap((one) => metricsIn(one.series)));
  expect(rules.flatMap(({ expr }) => metricsIn(expr)).filter((name) => !series?.includes(name))).toEqual([]);
});

test("the tests of the rules are of series that there are", () => {
  const all = Object.values(suites).flatMap((suite) => suite.tests.flatMap((each) => each.input_series));
  const strange = all.filter(({ series }) => {
    const [name = ""] = metricsIn(series);
    const labels = labelsIn(series).filter((label) => label !== "instance");
    return labels.toSorted().join() !== known.get(name)?.toSorted().join();
  });
  expect(strange).toEqual([]);
});

test("the page has every alert with its severity, and its metric's row names it", () => {
  const section = page.slice(page.indexOf("### Alerts"));
  const rows = [...section.matchAll(/^\| `(Deputize\w+)` \| (\w+) \|/gm)].map(([, ...row]) => row);
  expect(rows).toEqual(rules.map(({ alert, labels }) => [alert, labels.severity]));
  const measured = page.slice(page.indexOf("### Measurements"), page.indexOf("### Alerts"));
  const named = [
    ...measured.matchAll(/^\| `(deputize_[a-z_]+)` .*?((?:`Deputize\w+`(?:, )?)*) \|$/gm),
  ].flatMap(([, metric = "", alerts = ""]) =>
    [...alerts.matchAll(/Deputize\w+/g)].map(([alert]) => [alert, metric]),
  );
  const looked = rules
    .filter(({ alert }) => alert !== "DeputizeLedgerDiffers")
    .flatMap(({ alert, expr }) =>
      [...new Set(metricsIn(expr))].map((name) => [alert, name.replace(/_count$/, "")]),
    );
  expect(named.map(String).sort()).toEqual(looked.map(String).sort());
});
