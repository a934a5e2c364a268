import { styleText } from "node:util";
import type { Finding, Row } from "./check.ts";

const COLORS = { ok: "green", failed: "red", skipped: "yellow" } as const;
const WORDS = { ok: "ok", failed: "FAILED", skipped: "not checked" } as const;
const GAP = "  ";

/** Returns the rows as lines of an aligned table. `isColored` colors the results. */
export function tableLines(rows: readonly Row[], { isColored }: { isColored: boolean }): string[] {
  const nameWidth = Math.max(...rows.map(({ name }) => name.length));
  const wordWidth = Math.max(...Object.values(WORDS).map((word) => word.length));
  const indent = " ".repeat(nameWidth + wordWidth + 2 * GAP.length);
  const paint = (status: Finding["status"], text: string) =>
    isColored ? styleText(COLORS[status], text, { validateStream: false }) : text;
  const lines = rows.flatMap(({ name, status, detail, action }) => {
    const [first = "", ...more] = detail.split("\n");
    const word = paint(status, WORDS[status].padEnd(wordWidth));
    return [
      [name.padEnd(nameWidth), word, first].join(GAP),
      ...more.map((line) => `${indent}${line}`),
      ...(action === null ? [] : [`${indent}→ ${action}`]),
    ];
  });
  return [...lines, "", summary(rows)];
}

function summary(rows: readonly Row[]): string {
  const count = (status: Finding["status"]) => rows.filter((row) => row.status === status).length;
  return `${rows.length} checks: ${count("ok")} ok, ${count("failed")} failed, ${count("skipped")} not checked.`;
}

/** Returns the rows as one JSON object. */
export function tableJson(rows: readonly Row[]) {
  return { checks: rows, failed: rows.filter(({ status }) => status === "failed").length };
}
