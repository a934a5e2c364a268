/** A table column. A table that is too wide drops the columns with the highest `dropsAt` first. */
export type Column<T> = { heading: string; of(row: T): string; dropsAt?: number; isNumber?: boolean };

/** Width of a narrow terminal, which is also assumed where the width is unknown. */
const NARROW = 80;
const COLUMN_GAP = "   ";

/**
 * Formats rows under headings, as kubectl does. A table wider than `width` loses the columns with the highest
 * `dropsAt` until it fits. If that is not enough, the lines are cut.
 */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], width = NARROW): string {
  const shown = fitting(rows, columns, width);
  const pads = shown.map((column) => padOf(column, widthOf(column, rows)));
  const line = (cells: string[]) =>
    cut(cells.map((cell, index) => pads[index]?.(cell)).join(COLUMN_GAP), width);
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
  return widths.reduce((total, each) => total + each, 0) + COLUMN_GAP.length * (columns.length - 1);
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

const WIDEST = 100;

/**
 * Wraps a string into lines of at most `width` columns, and never more than 100. Longer words remain whole.
 */
export function wrapped(text: string, width: number): string {
  return linesOf(text, Math.min(width, WIDEST)).join("\n");
}

/** Formats labels in one column and their texts in a second column, in lines of at most `width` columns. */
export function labelled(
  lines: readonly (readonly [label: string, text: string])[],
  width: number,
  indent = "",
): string {
  const room = Math.max(0, ...lines.map(([label]) => label.length)) + GAP.length;
  const left = indent.length + room;
  return lines
    .map(([label, text]) => {
      const own = linesOf(text, Math.max(width, NARROWEST) - left);
      return `${indent}${label.padEnd(room)}${own.join(`\n${" ".repeat(left)}`)}`.trimEnd();
    })
    .join("\n");
}

const GAP = "   ";
/** Below this width, the terminal itself breaks the lines. */
const NARROWEST = 60;

function linesOf(text: string, room: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** Characters that hide, reverse or move text on a terminal, including direction marks. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u115f\u1160\u3164\uffa0]/gu;

/** Makes untrusted text safe to print: shows the code of each character that would hide or reverse text. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u{${code.toString(16)}}`;
  });
}

const UNITS: readonly [name: string, seconds: number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** Formats a duration in its largest unit, as `kubectl get` formats ages: `3d`, `5h`, `40m`, `12s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [name, size] = UNITS.find(([, size]) => seconds >= size * 2) ?? ["s", 1];
  return `${Math.floor(seconds / size)}${name}`;
}

/** Formats a time relative to now: `in 3d`, `5h ago`. Returns an empty string if there is no valid time. */
export function relative(time: string | undefined, now: Date): string {
  const ms = Date.parse(time ?? "") - now.getTime();
  if (Number.isNaN(ms)) return "";
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}
