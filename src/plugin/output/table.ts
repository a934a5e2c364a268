import { visible } from "./text.ts";

/**
 * A column: its heading, what it shows of a row, and when it goes where there is too little room. Numbers
 * stand to the right.
 */
export type Column<T> = { heading: string; of(row: T): string; dropsAt?: number; isNumber?: boolean };

/** Room that a narrow terminal has, and what is assumed where there is none. */
const NARROW = 80;
const GAP = "   ";

/**
 * Rows under headings, as kubectl writes them. Where they are wider than `width`, columns with the highest
 * `dropsAt` are left out until they fit, and then the last column is cut.
 */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], width = NARROW): string {
  const shown = fitting(rows, columns, width);
  const pads = shown.map((column) => padOf(column, widthOf(column, rows)));
  const line = (cells: string[]) => cut(cells.map((cell, index) => pads[index]?.(cell)).join(GAP), width);
  const lines = [line(shown.map(({ heading }) => heading))];
  for (const row of rows) lines.push(line(shown.map(({ of }) => visible(of(row)))));
  return `${lines.map((each) => each.trimEnd()).join("\n")}\n`;
}

function fitting<T>(rows: readonly T[], columns: readonly Column<T>[], width: number): Column<T>[] {
  const shown = [...columns];
  while (totalOf(shown, rows) > width) {
    const dropped = shown
      .filter(({ dropsAt }) => dropsAt !== undefined)
      .toSorted((left, right) => (right.dropsAt ?? 0) - (left.dropsAt ?? 0))[0];
    if (dropped === undefined) break;
    shown.splice(shown.indexOf(dropped), 1);
  }
  return shown;
}

function totalOf<T>(columns: readonly Column<T>[], rows: readonly T[]): number {
  const widths = columns.map((column) => widthOf(column, rows));
  return widths.reduce((total, each) => total + each, 0) + GAP.length * (columns.length - 1);
}

function padOf<T>({ isNumber }: Column<T>, width: number): (cell: string) => string {
  return isNumber ? (cell) => cell.padStart(width) : (cell) => cell.padEnd(width);
}

function widthOf<T>({ heading, of }: Column<T>, rows: readonly T[]): number {
  return Math.max(heading.length, ...rows.map((row) => visible(of(row)).length));
}

function cut(line: string, width: number): string {
  const text = line.trimEnd();
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}
