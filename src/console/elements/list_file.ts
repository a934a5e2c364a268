import type { PageFile, Visit } from "../core/page.ts";

/** A CSV column: its name, and an item's cell. */
export type FileColumn<Item> = readonly [name: string, of: (item: Item) => string | null | undefined];

type ListFile<Item> = {
  /** The start of the file's name. The day follows. */
  name: string;
  /** The member of the last NDJSON line that has the number of items. */
  counted: string;
  columns: readonly FileColumn<Item>[];
  /** The items of the list in parts, which are read while the file is sent. */
  parts: AsyncIterable<readonly Item[]>;
};

/** Returns a list as a file of any length, in CSV or NDJSON, as the query's `format` asks. */
export function listFile<Item>(visit: Visit, { name, counted, columns, parts }: ListFile<Item>): PageFile {
  const isCsv = visit.query.format === "csv";
  const day = visit.now.toISOString().slice(0, 10);
  return {
    name: `${name}-${day}.${isCsv ? "csv" : "ndjson"}`,
    type: isCsv ? "text/csv; charset=utf-8; header=present" : "application/x-ndjson",
    content: isCsv ? csvHead(columns) : "",
    rest: isCsv ? csvPieces(columns, parts) : jsonPieces(counted, parts),
  };
}

type Part<Item> = { items: readonly Item[]; next_cursor: string | null };

/** Returns the items of `first` and of the parts after it. `read` reads the part at a cursor. */
export async function* partsFrom<Item>(
  first: Part<Item>,
  read: (cursor: string) => Promise<Part<Item>>,
): AsyncGenerator<readonly Item[]> {
  let part = first;
  yield part.items;
  while (part.next_cursor !== null) {
    part = await read(part.next_cursor);
    yield part.items;
  }
}

async function* csvPieces<Item>(
  columns: readonly FileColumn<Item>[],
  parts: AsyncIterable<readonly Item[]>,
): AsyncGenerator<string> {
  for await (const items of parts) yield items.map((item) => csvLine(columns, item)).join("");
}

/** Returns a line for each item. The last line says that the file is complete and how many items it has. */
async function* jsonPieces(
  counted: string,
  parts: AsyncIterable<readonly unknown[]>,
): AsyncGenerator<string> {
  let count = 0;
  for await (const items of parts) {
    count += items.length;
    yield items.map((item) => `${JSON.stringify(item)}\n`).join("");
  }
  yield `${JSON.stringify({ complete: true, [counted]: count })}\n`;
}

/** Text that a spreadsheet would read as a formula, even after characters that the spreadsheet drops. */
const FORMULA = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

/** Returns a CSV file's first line, with the byte order mark by which spreadsheets recognize UTF-8. */
export function csvHead<Item>(columns: readonly FileColumn<Item>[]): string {
  return `\ufeff${lineOf(columns.map(([name]) => name))}`;
}

/** Returns an item as a CSV line (RFC 4180). */
export function csvLine<Item>(columns: readonly FileColumn<Item>[], item: Item): string {
  return lineOf(columns.map(([, of]) => of(item)));
}

function lineOf(cells: readonly (string | null | undefined)[]): string {
  return `${cells.map(quoted).join(",")}\r\n`;
}

/** Quotes a cell. With an apostrophe before a formula, every spreadsheet reads the formula as text. */
function quoted(cell: string | null | undefined): string {
  const text = cell ?? "";
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}
