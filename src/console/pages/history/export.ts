import type { NamedEntry } from "../../../history/history_entry.ts";
import type { ExportAnswer } from "../../../history/routes.ts";
import { page, type Visit } from "../../core/page.ts";
import { askedFor } from "./filters.ts";

/** Number of events that one call reads and keeps in memory. */
const READ = "1000";

/**
 * The page that downloads the filtered history as one file of any length, newest first. It reads each part
 * during the download, in a separate statement. `before` continues a file after its last complete line.
 */
export const exportPage = page<ExportAnswer>({
  id: "history_export",
  path: "/console/history/export",
  operations: ["export_audit_events"],
  load: (visit) => read(visit),
  file(visit, first) {
    const isCsv = visit.query.format === "csv";
    const day = visit.now.toISOString().slice(0, 10);
    return {
      name: `history-${day}.${isCsv ? "csv" : "ndjson"}`,
      type: isCsv ? "text/csv; charset=utf-8; header=present" : "application/x-ndjson",
      content: isCsv ? csvHead() : "",
      rest: isCsv ? csvPieces(visit, first) : jsonPieces(visit, first),
    };
  },
});

function read(visit: Visit, cursor?: string): Promise<ExportAnswer> {
  const { before } = visit.query;
  return visit.call("export_audit_events", { query: { ...askedFor(visit), before, limit: READ, cursor } });
}

async function* pagesFrom(visit: Visit, first: ExportAnswer): AsyncGenerator<ExportAnswer["events"]> {
  let page = first;
  yield page.events;
  while (page.next_cursor !== null) {
    page = await read(visit, page.next_cursor);
    yield page.events;
  }
}

async function* csvPieces(visit: Visit, first: ExportAnswer): AsyncGenerator<string> {
  for await (const events of pagesFrom(visit, first)) yield events.map(csvLine).join("");
}

/** Returns a line for each event. The last line says that the file is complete and how many events it has. */
async function* jsonPieces(visit: Visit, first: ExportAnswer): AsyncGenerator<string> {
  let count = 0;
  for await (const events of pagesFrom(visit, first)) {
    count += events.length;
    yield events.map((event) => `${JSON.stringify(event)}\n`).join("");
  }
  yield `${JSON.stringify({ complete: true, events: count })}\n`;
}

type Cell = string | null | undefined;

const COLUMNS: readonly [name: string, of: (event: NamedEntry) => Cell][] = [
  ["occurred_at", (event) => event.occurred_at],
  ["event_id", (event) => event.event_id],
  ["event_type", (event) => event.event_type],
  ["decision", ({ details }) => details.decision],
  ["decision_reason", ({ details }) => details.decision_reason],
  ["required_scope", ({ details }) => details.required_scope],
  ["action_profile", ({ details }) => details.action_profile],
  ["agent_id", (event) => event.agent_id],
  ["agent_name", (event) => event.agent_name],
  ["connection_id", (event) => event.connection_id],
  ["platform_name", (event) => event.details.verifier?.platform_name ?? event.platform_name],
  ["verifier_organization", ({ details }) => details.verifier?.organization_name],
  ["cert_id", (event) => event.cert_id],
  ["human_id", (event) => event.human_id],
  ["receipt_id", ({ details }) => details.receipt_id],
  ["receipt_hash", (event) => event.receipt_hash],
  ["failed_rule", ({ details }) => details.explanation?.rule],
  ["failed_constraint", ({ details }) => details.explanation?.constraint],
  ["limit", ({ details }) => factsOf(details.explanation?.limit)],
  ["sent", ({ details }) => factsOf(details.explanation?.sent)],
  ["sent_values", ({ details }) => details.explanation?.values],
];

/** Writes facts as JSON, because texts of strangers may contain any separator. */
function factsOf(facts: Record<string, string> | undefined): Cell {
  return facts && JSON.stringify(facts);
}

/** Text that a spreadsheet would read as a formula, even after characters that the spreadsheet drops. */
const FORMULA = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

/** Returns a CSV file's first line, with the byte order mark by which spreadsheets recognize UTF-8. */
export function csvHead(): string {
  return `\ufeff${lineOf(COLUMNS.map(([name]) => name))}`;
}

/** Returns an event as a CSV line (RFC 4180). */
export function csvLine(event: NamedEntry): string {
  return lineOf(COLUMNS.map(([, of]) => of(event)));
}

function lineOf(cells: readonly Cell[]): string {
  return `${cells.map(quoted).join(",")}\r\n`;
}

/** Quotes a cell. With an apostrophe before a formula, every spreadsheet reads the formula as text. */
function quoted(cell: Cell): string {
  const text = cell ?? "";
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}
