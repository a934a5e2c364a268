import * as echarts from "echarts";
import { type Report, ratiosSeen, type Spread, spreadOf } from "./figures.ts";
import { aimInWords, shown } from "./tables.ts";

type Bar = { label: string } & Spread;
type Panel = { title: string; bars: Bar[] };

const WIDTH = 960;
const ROW = 26;
const PANEL_HEAD = 64;
const LEFT = 380;
const LABEL = 300;
const RIGHT = 90;
const INK = "#1f2933";
const BAR = "#4c7a9f";

/**
 * A report as an SVG picture: a panel for each unit and one for the ratios, a bar for each median, and a line
 * from the lowest round to the highest.
 */
export function plotOf(title: string, report: Report): string {
  const panels = panelsOf(report);
  const heights = panels.map(({ bars }) => bars.length * ROW + PANEL_HEAD);
  const tops = heights.map((_, n) => heights.slice(0, n).reduce((sum, height) => sum + height, 48));
  const height = heights.reduce((sum, each) => sum + each, 48);
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height });
  chart.setOption({
    animation: false,
    backgroundColor: "#ffffff",
    textStyle: { color: INK, fontFamily: "sans-serif" },
    title: [
      { text: title, left: 16, top: 12, textStyle: { color: INK, fontSize: 16 } },
      ...panels.map(({ title: text }, n) => ({
        text,
        left: 16,
        top: (tops[n] ?? 0) + 8,
        textStyle: { color: INK, fontSize: 13 },
      })),
    ],
    grid: panels.map(({ bars }, n) => ({
      left: LEFT,
      right: RIGHT,
      top: (tops[n] ?? 0) + 30,
      height: bars.length * ROW,
    })),
    xAxis: panels.map((_, n) => ({ type: "value", gridIndex: n, min: 0, splitNumber: 4 })),
    yAxis: panels.map(({ bars }, n) => ({
      type: "category",
      gridIndex: n,
      inverse: true,
      axisTick: { show: false },
      axisLabel: { width: LABEL, overflow: "truncate" },
      data: bars.map(({ label }) => label),
    })),
    series: panels.flatMap(({ bars }, n) => [barsOf(bars, n), spreadsOf(bars, n)]),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

function panelsOf(report: Report): Panel[] {
  const units = [...new Set(report.figures.map(({ unit }) => unit))];
  const figures = units.map((unit) => ({
    title: unit,
    bars: report.figures
      .filter((figure) => figure.unit === unit)
      .map(({ name, values }) => ({ label: name, ...spreadOf(name, values) })),
  }));
  const ratios = ratiosSeen(report).map(({ name, aim, ...seen }) => ({
    ...seen,
    label: aim === undefined ? name : `${name} (${aimInWords(aim)})`,
  }));
  return ratios.length === 0 ? figures : [...figures, { title: "ratios", bars: ratios }];
}

function barsOf(bars: readonly Bar[], panel: number): echarts.SeriesOption {
  return {
    type: "bar",
    xAxisIndex: panel,
    yAxisIndex: panel,
    barWidth: 12,
    itemStyle: { color: BAR },
    data: bars.map(({ median }) => median),
  };
}

/** A line over each bar, from its lowest round to its highest, and behind both the median as a number. */
function spreadsOf(bars: readonly Bar[], panel: number): echarts.SeriesOption {
  return {
    type: "custom",
    xAxisIndex: panel,
    yAxisIndex: panel,
    silent: true,
    z: 10,
    renderItem(_, api) {
      const [row, lowest, highest] = [0, 1, 2].map((at) => Number(api.value(at))) as [number, number, number];
      const [from, to] = [api.coord([lowest, row]), api.coord([highest, row])];
      const [x1 = 0, y = 0] = from;
      const [x2 = 0] = to;
      return {
        type: "group",
        children: [
          { type: "line", shape: { x1, y1: y, x2, y2: y }, style: { stroke: INK, lineWidth: 2 } },
          {
            type: "text",
            x: x2 + 8,
            y,
            style: { text: shown(bars[row]?.median ?? 0), fill: INK, verticalAlign: "middle" },
          },
        ],
      };
    },
    data: bars.map(({ lowest, highest }, row) => [row, lowest, highest]),
  };
}
