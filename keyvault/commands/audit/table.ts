import type { AuditView } from "../../audit/list.ts";

const WIDE = 120;

/** Columns and their widths in characters: together 79 in a narrow window, 119 in one of 120 and more. */
function columnsOf(width: number): readonly (readonly [name: string, width: number])[] {
  return width < WIDE
    ? [
        ["SEQ", 7],
        ["TIME (UTC)", 14],
        ["CALLER", 14],
        ["STATEMENT", 14],
        ["OUTCOME", 16],
        ["KEY", 9],
      ]
    : [
        ["SEQ", 9],
        ["TIME (UTC)", 19],
        ["CALLER", 16],
        ["STATEMENT", 21],
        ["OUTCOME", 17],
        ["KEY", 32],
      ];
}

/** The line above the records. */
export function auditHeader(width: number): string {
  return row(
    columnsOf(width).map(([name]) => name),
    width,
  );
}

/** One record on one line no longer than `width` (80 or more). What does not fit ends in `…`. */
export function auditLine(record: AuditView, width: number): string {
  const time = record.recorded_at.slice(0, 19).replace("T", " ");
  return row(
    [
      String(record.seq),
      width < WIDE ? time.slice(5) : time,
      `${record.role}/${record.caller}`,
      record.statement,
      record.outcome,
      record.key_id ?? "",
    ],
    width,
  );
}

function row(cells: readonly string[], width: number): string {
  const columns = columnsOf(width);
  return cells
    .map((cell, index) => {
      const space = columns[index]?.[1] ?? 0;
      const text = cell.length > space ? `${cell.slice(0, space - 1)}…` : cell;
      return index === 0 ? text.padStart(space) : text.padEnd(space);
    })
    .join(" ")
    .trimEnd();
}
