import stringWidth from "string-width";

/**
 * A column of a table for people: its heading, and whether it is shortened first when the terminal is narrow.
 */
export type Column = { heading: string; shrinks?: true };

const GAP = "  ";
const LEAST = 8;

/**
 * Rows as aligned text, no line longer than `columns` as far as the columns that may shrink allow; what is
 * cut ends in "…". Widths are those of a terminal, wide scripts and joined symbols included.
 */
export function drawTable(
  head: readonly Column[],
  rows: readonly (readonly string[])[],
  columns: number,
): string {
  const widths = head.map(({ heading }, index) =>
    Math.max(...[heading, ...rows.map((row) => row[index] ?? "")].map(lengthOf)),
  );
  shrink(head, widths, columns);
  const lines = [head.map(({ heading }) => heading), ...rows].map((cells) =>
    cells
      .map((cell, index) => pad(cell, widths[index] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}

function shrink(head: readonly Column[], widths: number[], columns: number): void {
  const total = (): number => widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
  while (total() > columns) {
    const [widest] = head
      .map(({ shrinks }, index) => ({ index, width: shrinks ? (widths[index] ?? 0) : 0 }))
      .sort((left, right) => right.width - left.width);
    if (widest === undefined || widest.width <= LEAST) return;
    widths[widest.index] = widest.width - 1;
  }
}

/** A cell of exactly `width` columns: filled with spaces, or cut and ended by "…". */
export function pad(cell: string, width: number): string {
  const long = lengthOf(cell) > width;
  const text = long ? `${cut(cell, width - 1)}…` : cell;
  return text + " ".repeat(width - lengthOf(text));
}

function cut(text: string, width: number): string {
  let kept = "";
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (lengthOf(kept + segment) > width) break;
    kept += segment;
  }
  return kept;
}

function lengthOf(text: string): number {
  return stringWidth(text);
}
