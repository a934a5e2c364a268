import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { HELMS, helm } from "../support/helm.ts";
import { ran } from "../support/outside_tools.ts";
import { promtool } from "../support/promtool.ts";
import { CHART, NAMESPACE, nameOf, type Rendered, render, template } from "./render.ts";
import { mergeValues, PRODUCTION, type Values } from "./values.ts";

const ALERTS = join(import.meta.dirname, "../../docs/alerts");
const PARTS = ["api", "events", "migrate", "operator", "vault"];
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const tool = await promtool();
for (const { missing } of [...programs, tool])
  if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const monitoring = (more: Values = {}, values: Values = PRODUCTION): Values =>
  mergeValues(values, { monitoring: { enabled: true, ...more } });
const rulesOf = (part: string) => readFile(join(ALERTS, `${part}.rules.yaml`), "utf8").then(parse);
const ofKind = (objects: readonly Rendered[], kind: string) =>
  objects.filter((object) => object.kind === kind);
const ENDPOINT = { port: "health", path: "/metrics", interval: "15s", scrapeTimeout: "10s" };
const isOurs = ({ kind, metadata }: Rendered) =>
  ["ServiceMonitor", "PodMonitor", "PrometheusRule"].includes(kind) || metadata.name.endsWith("-dashboard");

describe.each(programs)("with Helm $version", ({ path = "", missing }) => {
  describe.skipIf(missing !== undefined)("the chart's monitoring", () => {
    test("creates no objects unless it is enabled", async () => {
      expect((await render(path, PRODUCTION)).filter(isOurs).map(nameOf)).toEqual([]);
      const off = { serviceMonitor: { enabled: false }, prometheusRule: { enabled: false } };
      const none = await render(path, monitoring({ ...off, dashboard: { enabled: false } }));
      expect(none.filter(isOurs).map(nameOf)).toEqual([]);
    });

    test("has one monitor per role, which selects one Service and its health port", async () => {
      const objects = await render(path, monitoring({ serviceMonitor: { interval: "15s" } }));
      const chosen = ofKind(objects, "ServiceMonitor").map(({ metadata, spec }) => {
        expect(spec.namespaceSelector).toEqual({ matchNames: [NAMESPACE] });
        expect(spec.endpoints).toEqual([ENDPOINT]);
        const wanted = Object.entries(spec.selector.matchLabels);
        const services = ofKind(objects, "Service").filter(({ metadata: { labels = {} } }) =>
          wanted.every(([label, value]) => labels[label] === value),
        );
        return [metadata.name, ...services.map((one) => `${one.metadata.name} ${one.spec.ports[0].port}`)];
      });
      expect(chosen.sort()).toEqual(
        ["api", "operator", "worker"].map((role) => [`deputize-${role}`, `deputize-${role}-health 9090`]),
      );
    });

    test("has a monitor for the vault's pod", async () => {
      const objects = await render(path, monitoring({ serviceMonitor: { interval: "15s" } }));
      const [monitor, ...others] = ofKind(objects, "PodMonitor");
      expect(others).toEqual([]);
      expect(monitor?.spec).toEqual({
        namespaceSelector: { matchNames: [NAMESPACE] },
        selector: {
          matchLabels: {
            "app.kubernetes.io/name": "deputize",
            "app.kubernetes.io/instance": "deputize",
            "app.kubernetes.io/component": "keyvault",
          },
        },
        podMetricsEndpoints: [ENDPOINT],
      });
    });

    test("has no monitor for a disabled operator", async () => {
      const objects = await render(
        path,
        monitoring({}, mergeValues(PRODUCTION, { operator: { enabled: false } })),
      );
      expect(ofKind(objects, "ServiceMonitor").map(({ metadata }) => metadata.name)).not.toContain(
        "deputize-operator",
      );
    });

    test("contains the documented rules unchanged, with this release's Job name", async () => {
      for (const fullname of ["deputize", "lend"]) {
        const values = monitoring({}, mergeValues(PRODUCTION, { fullnameOverride: fullname }));
        const rules = ofKind(await render(path, values), "PrometheusRule");
        const shown = Object.fromEntries(rules.map(({ metadata, spec }) => [metadata.name, spec]));
        const documented = await Promise.all(
          PARTS.map(async (part) => [`${fullname}-${part}`, await rulesOf(part)]),
        );
        const own = JSON.stringify(Object.fromEntries(documented)).replaceAll(
          ".*deputize.*-migrate.*",
          `${fullname}-(trial-)?migrate`,
        );
        expect(own).toContain("-(trial-)?migrate");
        expect(shown).toEqual(JSON.parse(own));
      }
    });

    test("gives each alert the URL of its runbook page if the base URL is set", async () => {
      const base = "https://example.test/deputize";
      const rules = ofKind(
        await render(path, monitoring({ prometheusRule: { runbookBase: `${base}/` } })),
        "PrometheusRule",
      );
      const all = rules.flatMap(({ spec }) =>
        spec.groups.flatMap((group: { rules: { annotations: Record<string, string> }[] }) => group.rules),
      );
      expect(all.length).toBeGreaterThan(40);
      for (const { annotations } of all) {
        expect(annotations.runbook_url).toBe(`${base}/${annotations.runbook}`);
      }
    });

    test.skipIf(tool.missing !== undefined)("has rules that promtool accepts", async () => {
      const rules = ofKind(await render(path, monitoring()), "PrometheusRule");
      const folder = await mkdtemp(join(tmpdir(), "deputize-rules-"));
      try {
        for (const { metadata, spec } of rules) {
          const file = join(folder, `${metadata.name}.yaml`);
          await writeFile(file, stringify(spec));
          expect(await ran(tool.path ?? "", ["check", "rules", file])).toMatchObject({ code: 0 });
        }
      } finally {
        await rm(folder, { recursive: true });
      }
    });

    test("contains the unchanged dashboard, in a ConfigMap for the sidecar", async () => {
      const objects = await render(
        path,
        monitoring({ namespace: "monitoring", dashboard: { annotations: { folder: "Platform" } } }),
      );
      const [map] = objects.filter(({ metadata }) => metadata.name === "deputize-dashboard");
      const file = await readFile(join(CHART, "files/dashboard.json"), "utf8");
      expect(map?.data["deputize.json"].trimEnd()).toBe(file.trimEnd());
      expect(map?.metadata).toMatchObject({
        namespace: "monitoring",
        labels: { grafana_dashboard: "1" },
        annotations: { folder: "Platform" },
      });
    });

    test("creates objects in the configured namespace, with the labels that Prometheus selects", async () => {
      const labels = { release: "kube-prometheus-stack" };
      const objects = (await render(path, monitoring({ namespace: "monitoring", labels }))).filter(isOurs);
      expect(objects).toHaveLength(4 + PARTS.length + 1);
      for (const object of objects) {
        expect(object.metadata.namespace, nameOf(object)).toBe("monitoring");
        if (object.kind !== "ConfigMap") expect(object.metadata.labels).toMatchObject(labels);
      }
    });

    test.each([
      ["an unknown name", { serviceMonitors: {} }],
      ["an interval without a unit", { serviceMonitor: { interval: "30" } }],
      ["labels that are not text", { labels: { release: 1 } }],
      ["a base that is not a URL", { prometheusRule: { runbookBase: "docs" } }],
    ])("rejects %s", async (_, more) => {
      const { isGood, err } = await template(path, monitoring(more));
      expect(isGood).toBe(false);
      expect(err).toMatch(/monitoring/);
    });
  });
});
