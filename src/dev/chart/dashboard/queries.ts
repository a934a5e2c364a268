/** One line of a panel. `expr` is PromQL without the namespace filter. */
export type Query = { expr: string; legend: string };

/** A panel of this dashboard. `unit` is a unit ID of Grafana. */
export type Panel = {
  title: string;
  unit: string;
  kind?: "stat";
  /** Explanation of what the title does not say. */
  description?: string;
  queries: Query[];
};

/** A row of panels. */
export type Row = { title: string; panels: Panel[] };

/** Returns the PromQL for a series's rate over the panel's sampling interval, grouped by labels. */
export const rate = (series: string, by = ""): string =>
  `sum${by === "" ? "" : ` by (${by})`} (rate(${series}[$__rate_interval]))`;

/** Returns the lines for the median and the 99th percentile of a histogram, grouped by labels. */
export function quantiles(bucket: string, by = "", name = ""): Query[] {
  const grouped = by === "" ? "le" : `le, ${by}`;
  const prefix = name || (by === "" ? "" : `{{${by.split(", ").at(-1)}}} `);
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, ${rate(bucket, grouped)})`,
    legend: `${prefix}p${quantile * 100}`,
  }));
}

/** Returns a panel with one line. */
export const singleLine = (expr: string, legend = ""): Query[] => [{ expr, legend }];

/** Returns a series's maximum over all workers. Each worker reports the same value from the database. */
export const maximum = (series: string, by = "", legend = ""): Query[] =>
  singleLine(`max${by === "" ? "" : ` by (${by})`} (${series})`, legend || `{{${by}}}`);
