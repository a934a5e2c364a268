import { z } from "zod";
import { UserError } from "../errors.ts";
import { contentLines } from "./contents.ts";
import { decryptStream } from "./encrypted_stream.ts";
import { signatureLine } from "./statement.ts";

const NEWLINE = 0x0a;

/** A backup that may be read from its beginning as often as it takes. */
export type BackupSource = () => AsyncIterable<Buffer>;

const backupLine = z.discriminatedUnion("kind", [...contentLines, signatureLine]);

/** One line of any kind, of which every member has its shape. */
export type BackupLine = z.infer<typeof backupLine>;

/**
 * Lines of an encrypted backup, each with its newline. Throws a `UserError` as {@link decryptStream} does,
 * and when the last one does not end.
 */
export async function* openLines(
  bytes: AsyncIterable<Buffer>,
  recoveryKey: string,
): AsyncGenerator<Buffer, void> {
  let begun: Buffer[] = [];
  for await (const piece of decryptStream(bytes, recoveryKey)) {
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

/** What a line says, whatever that is. Throws a `UserError` when it is not JSON. */
export function parseLine(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    throw notWhole();
  }
}

/** What a line says. Throws a `UserError` when a backup has no such line. */
export function readLine(line: Buffer): BackupLine {
  const read = backupLine.safeParse(parseLine(line));
  if (!read.success) throw notWhole();
  return read.data;
}

/** Says that lines are missing, are not where they belong, or do not belong in a backup. */
export const notWhole = (): UserError => new UserError("The backup is incomplete or out of order");
