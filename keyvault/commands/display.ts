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

/** Writes what a command did to standard output: with `--json` as a line of JSON, otherwise as this text. */
export function print({ json }: { json?: true | undefined }, value: unknown, text: string): void {
  process.stdout.write(json ? `${JSON.stringify(value)}\n` : text);
}

/** A line on standard error that shows how far long work is, drawn only for a terminal. */
type ProgressBar = { show(done: number, total: number): void; end(): void };

const WIDEST_BAR = 40;

/** A progress bar for this terminal. On anything but a terminal it shows nothing. */
export function createProgressBar(terminal: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!terminal.isTTY) return { show: () => {}, end: () => {} };
  return {
    show: (done, total) => terminal.write(`\r${drawProgress(done, total, terminal.columns || 80)}\x1b[K`),
    end: () => terminal.write("\n"),
  };
}

/** One line of at most `columns` characters: bar, share and counts. */
export function drawProgress(done: number, total: number, columns: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const text = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${done} of ${total}`;
  const width = Math.max(0, Math.min(WIDEST_BAR, columns - text.length - 3));
  const filled = Math.floor(share * width);
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}]${text}`;
}

/** Terminals are taken to be at least so wide. */
const NARROWEST = 80;

/** Columns of the terminal that `stream` is, or 80 when it is not a terminal. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout): number {
  return Math.max(stream.columns ?? NARROWEST, NARROWEST);
}

/**
 * Names and their texts, one under the other; a text that does not fit in `columns` goes on beneath itself,
 * between words. A word that is longer than a line of its own, as a code to be copied is, gets the next line
 * to itself, two columns in.
 */
export function foldLines(
  lines: readonly (readonly [name: string, text: string])[],
  nameWidth: number,
  columns: number,
): string {
  const indent = nameWidth + 1;
  return lines
    .map(([name, text]) => {
      const [head = "", ...rest] = foldWords(text, columns - indent);
      const under = (line: string): string =>
        line.length > columns - indent ? `  ${line}` : " ".repeat(indent) + line;
      if (name.length > nameWidth || head.length > columns - indent) {
        return [name, under(head), ...rest.map(under)].join("\n");
      }
      return [`${name.padEnd(nameWidth)} ${head}`.trimEnd(), ...rest.map(under)].join("\n");
    })
    .map((entry) => `${entry}\n`)
    .join("");
}

function foldWords(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) {
      lines.push(word);
    } else {
      lines[lines.length - 1] = `${last} ${word}`;
    }
  }
  return lines;
}
