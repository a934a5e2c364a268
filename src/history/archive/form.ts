import { hash } from "node:crypto";
import { z } from "zod";
import { type Month, type Monthly, monthly, parseMonth } from "../../db/months.ts";

/** What an archive has of a table: one file, a JSON object on each line, in the order of the key. */
export type ArchivedTable = Monthly & {
  file: string;
  /** The columns that tell rows apart; the second is the moment. */
  key: readonly [string, string, string];
  /** Every column, in the order in which lines have them. */
  columns: readonly string[];
  /** Rows that are archived, where not all are. */
  only?: string;
};

const POSTING = ["account_id", "posted_at", "posting_id"] as const;
const DECISION = ["account_id", "decided_at", "event_id"] as const;
const EVENT = ["account_id", "occurred_at", "event_id"] as const;

/** The tables of an archive. Another column, or another meaning of one, is another form. */
export const archivedTables: readonly ArchivedTable[] = [
  {
    ...monthly.audit_events,
    file: "audit_events.ndjson.gz",
    key: EVENT,
    columns: [
      ...EVENT,
      ...["event_type", "connection_id", "agent_id", "human_id", "cert_id", "decision", "decision_reason"],
      ...["required_scope", "receipt", "receipt_hash", "verifier_account_id", "verifier_platform_name"],
      "verifier_organization_name",
    ],
    // Presented proofs are forgotten after minutes.
    only: "decision is not null",
  },
  {
    ...monthly.outcomes,
    file: "outcomes.ndjson.gz",
    key: DECISION,
    columns: [...DECISION, "outcome", "detail", "occurred_at", "recorded_at"],
  },
  {
    ...monthly.ledger_postings,
    file: "ledger_postings.ndjson.gz",
    key: POSTING,
    columns: [...POSTING, "kind", "debit_book", "credit_book", "amount_micro_usd"],
  },
];

/** The version of what is in an archive and how. */
const FORM = 1;
const KIND = "deputize.history_archive";
/** The file that makes an archive whole. */
export const MANIFEST = "manifest.json";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const archivedFile = z.object({
  table: z.string(),
  name: z.string(),
  rows: z.int().min(0),
  /** The earliest and the latest moment of its rows; null where it has none. */
  first: z.string().nullable(),
  last: z.string().nullable(),
  bytes: z.int().min(0),
  sha256,
});
const manifest = z
  .object({
    kind: z.literal(KIND),
    form: z.literal(FORM),
    month: z.string().refine((text) => parseMonth(text) !== undefined),
    /** The newest migration of the database that it was made from. */
    schema: z.string(),
    files: z.array(archivedFile),
  })
  .refine(
    ({ files }) =>
      files.length === archivedTables.length &&
      archivedTables.every(({ table, file }, n) => files[n]?.table === table && files[n].name === file),
  );

/** What an archive says of one of its files: rows, bytes and hash are of the file as it is, compressed. */
export type ArchivedFile = z.infer<typeof archivedFile>;
/** What an archive says of itself. */
export type Manifest = z.infer<typeof manifest>;

/** The manifest of these files. */
export function manifestOf(month: Month, schema: string, files: ArchivedFile[]): Manifest {
  return { kind: KIND, form: FORM, month: month.name, schema, files };
}

/** The text of a manifest's file: the same for the same archive. */
export function manifestText(content: Manifest): string {
  return `${JSON.stringify(content, null, 2)}\n`;
}

/** SHA-256 of a manifest's file. */
export function manifestHash(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/** The manifest that a file's text is; undefined when it is of another form, or none. */
export function parseManifest(text: string): Manifest | undefined {
  try {
    const parsed = manifest.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** How many rows an archive has of each table. */
export function rowCounts({ files }: Manifest): Record<string, number> {
  return Object.fromEntries(files.map(({ table, rows }) => [table, rows]));
}

/** An archive cannot be made, or is not whole; the message says why and what to do. */
export class HistoryError extends Error {
  override name = "HistoryError";
}
