import { constants } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";

/** A file's text, or why it has none that may be taken. */
export type FileText = { text: string; fault?: never } | { text?: never; fault: string };

/** The message for a pipe, a device, a socket or a folder, and for a link to one. */
export const NOT_REGULAR = "is not a regular file";

/**
 * A special file put in place after the check: opening it neither waits for somebody nor takes a terminal.
 */
const HARMLESS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/**
 * Reads a regular file, or one that a link leads to, as UTF-8. Anything else is not opened: a pipe would
 * wait, a device may never end. At most `maxBytes` + 1 bytes are read, whatever size the system reports.
 * Throws when the file cannot be read.
 */
export async function readRegularFile(path: string, maxBytes: number): Promise<FileText> {
  if (!(await stat(path)).isFile()) return { fault: NOT_REGULAR };
  const file = await open(path, HARMLESS);
  try {
    if (!(await file.stat()).isFile()) return { fault: NOT_REGULAR };
    const bytes = await readUpTo(file, maxBytes + 1);
    return bytes.length > maxBytes
      ? { fault: `has more than ${maxBytes} bytes` }
      : { text: bytes.toString("utf8") };
  } finally {
    await file.close();
  }
}

const CHUNK_BYTES = 64 * 1024;

async function readUpTo(file: FileHandle, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  while (length < limit) {
    const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, limit - length));
    const { bytesRead } = await file.read(chunk, 0, chunk.length);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    length += bytesRead;
  }
  return Buffer.concat(chunks);
}
