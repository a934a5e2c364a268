import stringWidth from "string-width";

/** A column of a table. If `shrinks` is true, its cells may be shortened on a narrow terminal. */
export type Column = { heading: string; shrinks?: true };

const GAP = "  ";
const LEAST = 8;

/**
 * Returns rows as an aligned table. Lines have at most `columns` characters, as far as shortening the
 * `shrinks` columns allows. Shortened cells end in "…". Wide scripts and combined symbols count with their
 * terminal width.
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

/** Returns a cell of exactly `width` columns, padded with spaces, or shortened and ending in "…". */
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

/**
 * Writes a command's result to standard output: `value` as one line of JSON with `--json`, otherwise `text`.
 */
export function print({ json }: { json?: true | undefined }, value: unknown, text: string): void {
  process.stdout.write(json ? `${JSON.stringify(value)}\n` : text);
}

type ProgressBar = { show(done: number, total: number): void; end(): void };

const WIDEST_BAR = 40;

/** Returns a progress bar on this stream. The bar shows nothing if the stream is not a terminal. */
export function createProgressBar(terminal: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!terminal.isTTY) return { show: () => {}, end: () => {} };
  return {
    show: (done, total) => terminal.write(`\r${drawProgress(done, total, terminal.columns || 80)}\x1b[K`),
    end: () => terminal.write("\n"),
  };
}

/** Returns a progress line of at most `columns` characters: bar, percentage and counts. */
export function drawProgress(done: number, total: number, columns: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const text = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${done} of ${total}`;
  const width = Math.max(0, Math.min(WIDEST_BAR, columns - text.length - 3));
  const filled = Math.floor(share * width);
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}]${text}`;
}

const NARROWEST = 80;

/** Returns the columns of the terminal, at least 80. Returns 80 if `stream` is not a terminal. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout): number {
  return Math.max(stream.columns ?? NARROWEST, NARROWEST);
}

/**
 * Returns names with their descriptions, one entry per line. Wraps descriptions between words. A word longer
 * than a line, such as a code to copy, gets its own line, indented by two columns.
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
