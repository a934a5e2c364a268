import { events, kafka } from "./event_rows.ts";
import { operator } from "./operator_row.ts";
import type { Panel, Query, Row } from "./queries.ts";
import { api, overview, processes, vault } from "./service_rows.ts";

const rows: readonly Row[] = [overview, api, vault, events, kafka, operator, processes];

const TITLE = "Deputize";
const UID = "deputize";
/** Version of Grafana's classic dashboard schema, which Grafana 10 and later accept. */
const SCHEMA = 39;
const WIDTH = 24;
const [STAT_SIZE, GRAPH_SIZE] = [
  { w: 6, h: 4 },
  { w: 8, h: 8 },
];
const SOURCE = { type: "prometheus", uid: "$datasource" };
const STAT = {
  reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false },
  textMode: "auto",
  graphMode: "none",
  colorMode: "value",
  justifyMode: "auto",
  orientation: "auto",
  wideLayout: true,
  showPercentChange: false,
  percentChangeColorMode: "standard",
};
const SERIES =
  /(?<!["\w$])((?:deputize|keyvault|controller_runtime|workqueue|leader_election|process|nodejs)_[a-z0-9_]+)(\{?)/g;

/** Returns the dashboard in the form that Grafana imports: JSON with a final line break. */
export function dashboardFile(): string {
  return `${JSON.stringify(dashboard(), undefined, 2)}\n`;
}

function dashboard() {
  return {
    uid: UID,
    title: TITLE,
    description: "Decisions, key vault, events and operator of Deputize. See docs/observability.md.",
    tags: ["deputize"],
    schemaVersion: SCHEMA,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    timezone: "browser",
    time: { from: "now-6h", to: "now" },
    annotations: { list: [] },
    links: [],
    templating: { list: variables() },
    panels: placed(rows),
  };
}

function variables() {
  return [
    { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
    {
      name: "namespace",
      label: "Namespace",
      type: "query",
      datasource: SOURCE,
      definition: "label_values(deputize_ready, namespace)",
      query: { query: "label_values(deputize_ready, namespace)", refId: "namespace" },
      refresh: 2,
      sort: 1,
      multi: true,
      includeAll: true,
      // Outside a cluster, series have no namespace label. This pattern matches them too.
      allValue: ".*",
      current: { text: "All", value: "$__all" },
    },
  ];
}

function placed(all: readonly Row[]): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const { title, panels: own } of all) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: WIDTH, h: 1 },
      panels: [],
    });
    y += 1;
    let [x, height] = [0, 0];
    for (const panel of own) {
      const { w, h } = panel.kind === "stat" ? STAT_SIZE : GRAPH_SIZE;
      if (x + w > WIDTH || (height > 0 && h !== height)) {
        y += height;
        x = 0;
      }
      panels.push({ id: panels.length + 1, ...shown(panel), gridPos: { x, y, w, h } });
      x += w;
      height = h;
    }
    y += height;
  }
  return panels;
}

function shown({ title, unit, kind = undefined, description, queries }: Panel): object {
  const common = {
    title,
    ...(description === undefined ? {} : { description }),
    datasource: SOURCE,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(target),
  };
  return kind === "stat"
    ? {
        type: "stat",
        ...common,
        options: STAT,
      }
    : {
        type: "timeseries",
        ...common,
        options: {
          legend: { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] },
          tooltip: { mode: "multi", sort: "desc" },
        },
      };
}

function target({ expr, legend }: Query, index: number): object {
  return {
    refId: String.fromCharCode("A".charCodeAt(0) + index),
    datasource: SOURCE,
    expr: ofNamespace(expr),
    legendFormat: legend || "__auto",
    range: true,
  };
}

function ofNamespace(expr: string): string {
  return expr.replace(SERIES, (_, name: string, brace: string) =>
    brace === "" ? `${name}{namespace=~"$namespace"}` : `${name}{namespace=~"$namespace", `,
  );
}
