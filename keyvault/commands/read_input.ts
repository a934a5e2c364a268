import { type FileHandle, open } from "node:fs/promises";
import type { ReadStream } from "node:tty";
import { InvalidArgumentError } from "commander";
import { UserError } from "../errors.ts";
import { MAX_PIN_BYTES } from "../token/pin_box.ts";

const ENTER = new Set([0x0a, 0x0d, 0x04]);
const RUBOUT = new Set([0x08, 0x7f]);
const INTERRUPT = 0x03;
const SPACE = 0x20;

/**
 * Reads a PIN without the line ending: from the file, from the terminal without echo, or otherwise from the
 * first line of standard input. The PIN exists in only one buffer, which the caller overwrites. Throws a
 * `UserError` if the PIN is empty, too long, or cannot be read.
 */
export async function readPin(file: string | undefined): Promise<Buffer> {
  if (file !== undefined) return readPinFile(file);
  return process.stdin.isTTY ? ask(process.stdin) : readLine(process.stdin);
}

async function readPinFile(path: string): Promise<Buffer> {
  const handle = await openNamedFile(path);
  try {
    const typed = createPin();
    const chunk = Buffer.alloc(MAX_PIN_BYTES + 2);
    const { bytesRead } = await handle.read(chunk);
    typed.type(chunk.subarray(0, bytesRead));
    chunk.fill(0);
    return typed.pin();
  } finally {
    await handle.close();
  }
}

async function ask(terminal: ReadStream): Promise<Buffer> {
  terminal.setRawMode(true);
  process.stderr.write("PIN: ");
  try {
    return await readLine(terminal);
  } finally {
    terminal.setRawMode(false);
    process.stderr.write("\n");
  }
}

function readLine(input: NodeJS.ReadStream): Promise<Buffer> {
  const typed = createPin();
  return new Promise<Buffer>((resolve, reject) => {
    const finish = (): void => {
      input.off("data", take).off("end", finish).off("error", reject).pause();
      try {
        resolve(typed.pin());
      } catch (error) {
        reject(error as Error);
      }
    };
    const take = (chunk: Buffer): void => {
      if (input.isTTY && chunk.includes(INTERRUPT)) {
        input.pause();
        reject(new UserError("No PIN was given"));
      } else if (typed.type(chunk)) finish();
      chunk.fill(0);
    };
    input.on("data", take).on("end", finish).on("error", reject).resume();
  });
}

/**
 * Collects a typed line. `type` reads bytes up to the line ending and returns whether the line is complete.
 */
function createPin(): { type(chunk: Buffer): boolean; pin(): Buffer } {
  const bytes = Buffer.alloc(MAX_PIN_BYTES + 1);
  let length = 0;
  return {
    type(chunk) {
      for (const byte of chunk) {
        if (ENTER.has(byte)) return true;
        if (RUBOUT.has(byte)) {
          length = Math.max(0, length - 1);
        } else if (byte >= SPACE && length < bytes.length) bytes[length++] = byte;
      }
      return false;
    },
    pin() {
      if (length > 0 && length <= MAX_PIN_BYTES) return bytes.subarray(0, length);
      bytes.fill(0);
      throw new UserError(length === 0 ? "No PIN was given" : `A PIN has at most ${MAX_PIN_BYTES} bytes`);
    },
  };
}

/**
 * Returns a parser for a command-line option that must be a whole number from `least` to `most`. For any
 * other text, the parser throws commander's error with `hint`.
 */
export function wholeNumber(least: number, most: number, hint: string): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < least || number > most) throw new InvalidArgumentError(hint);
    return number;
  };
}

/**
 * Opens a file that the user named, for reading. Throws a `UserError` for a folder, otherwise the file
 * system's error with the path.
 */
export async function openNamedFile(path: string): Promise<FileHandle> {
  const handle = await open(path);
  if (!(await handle.stat()).isDirectory()) return handle;
  await handle.close();
  throw new UserError(`${path}: it is a folder`);
}

/** Reads the text of a file that the user named. Throws like {@link openNamedFile}. */
export async function readNamedFile(path: string): Promise<string> {
  const handle = await openNamedFile(path);
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}
