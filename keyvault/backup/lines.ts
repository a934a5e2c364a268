import { Problem } from "../problem.ts";
import type { EndLine, Manifest, RowsLine } from "./contents.ts";
import { openStream } from "./sealed_stream.ts";
import type { SignatureLine } from "./statement.ts";

const NEWLINE = 0x0a;

/** A backup that may be read from its beginning as often as it takes. */
export type BackupSource = () => AsyncIterable<Buffer>;

/** One line of any kind, as somebody wrote it: nothing of it is checked but that it is an object. */
export type BackupLine = Manifest | RowsLine | EndLine | SignatureLine;

/** Lines of an encrypted backup, each with its newline. Throws a `Problem` as {@link openStream} does, and when the last one does not end. */
export async function* openLines(
  bytes: AsyncIterable<Buffer>,
  recoveryKey: string,
): AsyncGenerator<Buffer, void> {
  let begun: Buffer[] = [];
  for await (const piece of openStream(bytes, recoveryKey)) {
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      yield Buffer.concat([...begun, piece.subarray(from, at + 1)]);
      begun = [];
      from = at + 1;
    }
    if (from < piece.length) begun.push(piece.subarray(from));
  }
  if (begun.length > 0) throw notWhole();
}

/** What a line says. Throws a `Problem` when it is no object. */
export function readLine(line: Buffer): BackupLine {
  let content: unknown;
  try {
    content = JSON.parse(line.toString());
  } catch {
    throw notWhole();
  }
  if (typeof content !== "object" || content === null) throw notWhole();
  return content as BackupLine;
}

/** Says that lines are missing, or are not where they belong. */
export const notWhole = (): Problem => new Problem("The backup is not whole");
