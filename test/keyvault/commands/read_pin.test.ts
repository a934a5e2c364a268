import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { readPin } from "../../../keyvault/commands/read_input.ts";

const MOST = 255;

afterEach(() => vi.restoreAllMocks());

/**
 * Replaces standard input by a stream with these chunks. The stream ends after them unless it is a terminal.
 */
function input(pieces: readonly (string | Buffer)[], isTerminal = false) {
  const modes: boolean[] = [];
  const stream = Object.assign(new PassThrough(), {
    isTTY: isTerminal,
    setRawMode: (raw: boolean) => void modes.push(raw),
  });
  const chunks = pieces.map((piece) => Buffer.from(piece));
  const real = Object.getOwnPropertyDescriptor(process, "stdin")!;
  Object.defineProperty(process, "stdin", { configurable: true, get: () => stream });
  onTestFinished(() => void Object.defineProperty(process, "stdin", real));
  let shown = "";
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    shown += String(text);
    return true;
  });
  for (const chunk of chunks) stream.write(chunk);
  if (!isTerminal) stream.end();
  return { modes, chunks, stream, shown: () => shown };
}

const typed = async (...pieces: string[]) => {
  input(pieces, true);
  return (await readPin(undefined)).toString();
};
const piped = async (...pieces: string[]) => {
  input(pieces);
  return (await readPin(undefined)).toString();
};

test("readPin reads the first line of standard input with any line ending", async () => {
  for (const end of ["\n", "\r\n", "\r", ""]) expect(await piped(`1234${end}`)).toBe("1234");
  expect(await piped("12", "34\nnot this")).toBe("1234");
  expect(await piped("1\u00002\u001b3\t4\n")).toBe("1234");
});

test("readPin asks on a terminal without showing the PIN, and handles backspace", async () => {
  const { modes, shown } = input(["12\u007f34\b5", "\r"], true);
  expect((await readPin(undefined)).toString()).toBe("135");
  expect(modes).toEqual([true, false]);
  expect(shown()).toBe("PIN: \n");
  expect(await typed("\u007f\u007f1\r")).toBe("1");
  expect(await typed("1234\u0004")).toBe("1234");
});

test("readPin rejects after Ctrl-C and restores the terminal", async () => {
  const { modes } = input(["12\u0003"], true);
  await expect(readPin(undefined)).rejects.toThrow("No PIN was given");
  expect(modes).toEqual([true, false]);
});

test("readPin rejects an empty PIN and a PIN that is too long", async () => {
  for (const nothing of ["", "\n", "\nlater"]) {
    await expect(piped(nothing)).rejects.toThrow("No PIN was given");
  }
  expect(await piped("1".repeat(MOST))).toHaveLength(MOST);
  for (const long of [MOST + 1, 3 * MOST]) {
    await expect(piped("1".repeat(long))).rejects.toThrow(`A PIN has at most ${MOST} bytes`);
  }
});

test("readPin overwrites the chunks that it has read", async () => {
  const { stream } = input([]);
  const pieces = [Buffer.from("12"), Buffer.from("34\n")];
  const reading = readPin(undefined);
  for (const piece of pieces) stream.emit("data", piece);
  expect((await reading).toString()).toBe("1234");
  expect(pieces).toEqual([Buffer.alloc(2), Buffer.alloc(3)]);
});

test("readPin reads the first line of a file, and rejects a PIN that is too long", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-pin-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const file = join(dir, "pin");
  const given = async (text: string) => {
    await writeFile(file, text);
    return (await readPin(file)).toString();
  };
  expect(await given("1234\nnot this")).toBe("1234");
  expect(await given("1".repeat(MOST))).toHaveLength(MOST);
  expect(await given(`${"1".repeat(MOST)}\r\n`)).toHaveLength(MOST);
  await expect(given("1".repeat(MOST + 1))).rejects.toThrow(`A PIN has at most ${MOST} bytes`);
  await expect(given("\n1234")).rejects.toThrow("No PIN was given");
  await expect(readPin(dir)).rejects.toThrow(`${dir}: it is a folder`);
});
