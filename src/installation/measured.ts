import type { MeasuredState, Sample } from "../events/measurements.ts";
import { type AlertName, alerts, judge } from "./alerts.ts";
import { type Figure, figure } from "./part.ts";

/** Rules whose figure is not the value of their series. */
const OTHERWISE: ReadonlySet<string> = new Set<AlertName>(["DeputizeEndpointSuspended"]);

/** The figures that a measurement of the metrics reads, judged by the rules about its series. */
export async function measured(state: MeasuredState, now: Date): Promise<Figure[]> {
  const samples = await state.read(now);
  return Object.entries(samples).flatMap(([metric, values]) =>
    values.map((sample) => figureOf(metric, sample, now)),
  );
}

/** A metric's sample as a figure. */
export function figureOf(metric: string, { value, labels = {} }: Sample, at: Date): Figure {
  const [label] = Object.entries(labels);
  return figure({
    name: metric,
    about: label?.[1] ?? null,
    value: metric.endsWith("_seconds") ? Math.round(value) : value,
    unit: metric.endsWith("_seconds") ? "seconds" : "count",
    at,
    ...judge(value, ...rulesOf(metric, label)),
  });
}

function rulesOf(metric: string, label: [string, string] | undefined): AlertName[] {
  const series = label === undefined ? [metric] : [metric, `${metric}{${label[0]}="${label[1]}"}`];
  const names = Object.keys(alerts) as AlertName[];
  return names.filter((name) => series.includes(alerts[name].series) && !OTHERWISE.has(name));
}
