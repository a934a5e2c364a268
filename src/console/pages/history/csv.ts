import type { NamedEntry } from "../../../audit/history_entry.ts";

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
];

/** What a spreadsheet takes for a formula, or drops until it finds one. */
const FORMULA = /^[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

/** The first line of a CSV file, after the mark by which spreadsheets know UTF-8. */
export function csvHead(): string {
  return `\ufeff${lineOf(COLUMNS.map(([name]) => name))}`;
}

/** An event as a line of RFC 4180. */
export function csvLine(event: NamedEntry): string {
  return lineOf(COLUMNS.map(([, of]) => of(event)));
}

function lineOf(cells: readonly Cell[]): string {
  return `${cells.map(quoted).join(",")}\r\n`;
}

/** A cell that is text wherever it is opened: an apostrophe stands before what would be a formula. */
function quoted(cell: Cell): string {
  const text = cell ?? "";
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}
