import { hash } from "node:crypto";
import { z } from "zod";
import { type Month, type Monthly, monthly, parseMonth } from "../../db/months.ts";

/** The version of the archive's format. In format 1, rows have no explanation. */
const FORM = 2;

/** The archived form of a table: one file with a JSON object on each line, in primary-key order. */
export type ArchivedTable = Monthly & {
  file: string;
  /** The columns that identify a row. The second is the time. */
  key: readonly [string, string, string];
  /** All columns, in the order in which each line contains them. */
  columns: readonly string[];
  /** A SQL condition that selects the rows to archive. If absent, all rows are archived. */
  only?: string;
};

const POSTING = ["account_id", "posted_at", "posting_id"] as const;
const DECISION = ["account_id", "decided_at", "event_id"] as const;
const EVENT = ["account_id", "occurred_at", "event_id"] as const;

/** The tables of an archive. If a column is added or its meaning changes, `FORM` must change. */
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
      "explanation",
    ],
    // Excludes presented proofs, which expire within minutes.
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

const KIND = "deputize.history_archive";
/** The file that marks an archive as complete. */
export const MANIFEST = "manifest.json";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const archivedFile = z.object({
  table: z.string(),
  name: z.string(),
  rows: z.int().min(0),
  /** The earliest and the latest time of the file's rows. Null if the file has no rows. */
  first: z.string().nullable(),
  last: z.string().nullable(),
  bytes: z.int().min(0),
  sha256,
});
const manifest = z
  .object({
    kind: z.literal(KIND),
    form: z.int().min(1).max(FORM),
    month: z.string().refine((text) => parseMonth(text) !== undefined),
    /** The newest migration of the database from which the archive was created. */
    schema: z.string(),
    files: z.array(archivedFile),
  })
  .refine(
    ({ files }) =>
      files.length === archivedTables.length &&
      archivedTables.every(({ table, file }, n) => files[n]?.table === table && files[n].name === file),
  );

/** One file in an archive. Bytes and hash refer to the compressed file. */
export type ArchivedFile = z.infer<typeof archivedFile>;
/** The description of an archive. */
export type Manifest = z.infer<typeof manifest>;

/** Returns the columns of each row in an archive of this format. */
export function columnsIn({ form }: Manifest, { columns }: ArchivedTable): readonly string[] {
  return form === 1 ? columns.filter((column) => column !== "explanation") : columns;
}

/** Returns the manifest of these files. */
export function manifestOf(month: Month, schema: string, files: ArchivedFile[]): Manifest {
  return { kind: KIND, form: FORM, month: month.name, schema, files };
}

/** Returns the text of a manifest file. The same archive always has the same text. */
export function manifestText(content: Manifest): string {
  return `${JSON.stringify(content, null, 2)}\n`;
}

/** Returns the SHA-256 of a manifest file. */
export function manifestHash(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/** Parses the text of a manifest file. Returns undefined if it has a different format. */
export function parseManifest(text: string): Manifest | undefined {
  try {
    const parsed = manifest.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the number of rows in an archive by table. */
export function rowCounts({ files }: Manifest): Record<string, number> {
  return Object.fromEntries(files.map(({ table, rows }) => [table, rows]));
}

/**
 * An archive cannot be created or is incomplete. The message says why. The commands of `deputize history` add
 * what to do about an incomplete archive.
 */
export class HistoryError extends Error {
  override name = "HistoryError";
}
