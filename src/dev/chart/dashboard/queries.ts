/** One line of a panel: PromQL without the choice of a namespace, and what the line is called. */
export type Query = { expr: string; legend: string };

/** A panel as this dashboard has them. `unit` is one of Grafana's. */
export type Panel = {
  title: string;
  unit: string;
  kind?: "stat";
  /** What a reader cannot see by the title. */
  description?: string;
  queries: Query[];
};

/** A row of panels. */
export type Row = { title: string; panels: Panel[] };

/** A rate over the time between two points of the panel, by labels. */
export const rate = (series: string, by = ""): string =>
  `sum${by === "" ? "" : ` by (${by})`} (rate(${series}[$__rate_interval]))`;

/** Median and 99th of a hundred of a histogram, by labels. */
export function quantiles(bucket: string, by = "", name = ""): Query[] {
  const grouped = by === "" ? "le" : `le, ${by}`;
  const prefix = name || (by === "" ? "" : `{{${by.split(", ").at(-1)}}} `);
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, ${rate(bucket, grouped)})`,
    legend: `${prefix}p${quantile * 100}`,
  }));
}

/** One line. */
export const one = (expr: string, legend = ""): Query[] => [{ expr, legend }];

/** What is read from the database is the same at every worker. */
export const most = (series: string, by = "", legend = ""): Query[] =>
  one(`max${by === "" ? "" : ` by (${by})`} (${series})`, legend || `{{${by}}}`);
