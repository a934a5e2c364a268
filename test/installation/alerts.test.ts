import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type AlertName, alerts, judge, stateOf } from "../../src/installation/alerts.ts";

type Rule = { alert: string; expr: string; labels: { severity: string }; annotations: { runbook: string } };

const FOLDER = join(import.meta.dirname, "../../docs/alerts");
const rules = globSync("*.rules.yaml", { cwd: FOLDER }).flatMap((name) => {
  const { groups } = parse(readFileSync(join(FOLDER, name), "utf8")) as { groups: { rules: Rule[] }[] };
  return groups.flatMap((group) => group.rules);
});
const names = Object.keys(alerts) as AlertName[];

describe("each rule that a figure is judged by", () => {
  test.each(names)("%s has the expression, the severity and the section of docs/alerts", (name) => {
    const rule = rules.find(({ alert }) => alert === name);
    const { expr, severity, runbook } = alerts[name];
    expect({ expr, severity, runbook }).toEqual({
      expr: rule?.expr,
      severity: rule?.labels.severity,
      runbook: rule?.annotations.runbook,
    });
  });
});

describe("a value is judged by the bounds of the rules", () => {
  test.each([
    ["DeputizeOutboxAges", 60, 61],
    ["DeputizeOutboxStuck", 900, 901],
    ["DeputizeDeliveriesHeld", 1000, 1001],
    ["DeputizeLedgerDiffers", 0, 1],
    ["DeputizeEndpointSuspended", 0, 1],
    ["DeputizeWorkerAbsent", 1, 0],
    ["DeputizeKafkaAway", 1, 0],
    ["DeputizeVaultSealed", 0, 1],
    ["DeputizeVaultClientCertificateEnds", 14 * 86_400, 14 * 86_400 - 1],
  ] as const)("%s is quiet at %d and fires at %d", (name, quiet, firing) => {
    expect(judge(quiet, name)).toEqual({ state: "well", alert: null });
    expect(judge(firing, name)).toEqual({ state: stateOf(name), alert: name });
  });

  test("critical is for now, everything else for the day", () => {
    expect(names.filter((name) => stateOf(name) === "act").toSorted()).toEqual(
      rules
        .filter(({ alert, labels }) => alert in alerts && labels.severity === "critical")
        .map(({ alert }) => alert)
        .toSorted(),
    );
  });

  test("the first of several that fires is told, so that the worse one comes first", () => {
    const told = (value: number) => judge(value, "DeputizeOutboxStuck", "DeputizeOutboxAges").alert;
    expect([told(60), told(61), told(900), told(901)]).toEqual([
      null,
      "DeputizeOutboxAges",
      "DeputizeOutboxAges",
      "DeputizeOutboxStuck",
    ]);
  });
});
