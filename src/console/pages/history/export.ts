import type { NamedEntry } from "../../../history/history_entry.ts";
import type { ExportAnswer } from "../../../history/routes.ts";
import { page, type Visit } from "../../core/page.ts";
import { type FileColumn, listFile, partsFrom } from "../../elements/list_file.ts";
import { askedFor } from "./filters.ts";

/** Number of events that one call reads and keeps in memory. */
const READ = "1000";

type Part = { items: ExportAnswer["events"]; next_cursor: string | null };

/**
 * The page that downloads the filtered history as one file of any length, newest first. It reads each part
 * during the download, in a separate statement. `before` continues a file after its last complete line.
 */
export const exportPage = page<Part>({
  id: "history_export",
  path: "/console/history/export",
  operations: ["export_audit_events"],
  load: (visit) => read(visit),
  file: (visit, first) =>
    listFile(visit, {
      name: "history",
      counted: "events",
      columns: HISTORY_COLUMNS,
      parts: partsFrom(first, (cursor) => read(visit, cursor)),
    }),
});

async function read(visit: Visit, cursor?: string): Promise<Part> {
  const query = { ...askedFor(visit), before: visit.query.before, limit: READ, cursor };
  const { events, next_cursor } = await visit.call("export_audit_events", { query });
  return { items: events, next_cursor };
}

/** The columns of the history as a CSV file. */
export const HISTORY_COLUMNS: readonly FileColumn<NamedEntry>[] = [
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
function factsOf(facts: Record<string, string> | undefined): string | undefined {
  return facts && JSON.stringify(facts);
}
