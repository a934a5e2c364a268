import type { ExportAnswer } from "../../../audit/routes.ts";
import { page, type Visit } from "../../core/page.ts";
import { csvHead, csvLine } from "./csv.ts";
import { askedFor } from "./filters.ts";

/** Events that are read at a time, and held in memory. */
const READ = "1000";

/**
 * The history that a filter leaves as one file of any length, newest first. It is read page by page while it
 * is sent, each page in a statement of its own; `before` continues a file after its last whole line.
 */
export const exportPage = page<ExportAnswer>({
  id: "history_export",
  path: "/console/history/export",
  access: "onboarded",
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

/** A line for each event; the last line says that the file is complete, and how many events it has. */
async function* jsonPieces(visit: Visit, first: ExportAnswer): AsyncGenerator<string> {
  let count = 0;
  for await (const events of pagesFrom(visit, first)) {
    count += events.length;
    yield events.map((event) => `${JSON.stringify(event)}\n`).join("");
  }
  yield `${JSON.stringify({ complete: true, events: count })}\n`;
}
