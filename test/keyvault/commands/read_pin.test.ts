import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { readPin } from "../../../keyvault/commands/read_input.ts";

const MOST = 255;

afterEach(() => vi.restoreAllMocks());

/** Standard input that gives these pieces and, unless it is a terminal, ends; and what was done to it. */
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

test("a PIN is the first line of standard input, whichever end it has, or has none", async () => {
  for (const end of ["\n", "\r\n", "\r", ""]) expect(await piped(`1234${end}`)).toBe("1234");
  expect(await piped("12", "34\nnot this")).toBe("1234");
  expect(await piped("1\u00002\u001b3\t4\n")).toBe("1234");
});

test("typed, it is asked for and not shown; what is rubbed out, one character at a time, is not of it", async () => {
  const { modes, shown } = input(["12\u007f34\b5", "\r"], true);
  expect((await readPin(undefined)).toString()).toBe("135");
  expect(modes).toEqual([true, false]);
  expect(shown()).toBe("PIN: \n");
  expect(await typed("\u007f\u007f1\r")).toBe("1");
  expect(await typed("1234\u0004")).toBe("1234");
});

test("Ctrl-C gives none, and leaves the terminal as it was", async () => {
  const { modes } = input(["12\u0003"], true);
  await expect(readPin(undefined)).rejects.toThrow("No PIN was given");
  expect(modes).toEqual([true, false]);
});

test("no PIN and one that is too long are refused: none is cut", async () => {
  for (const nothing of ["", "\n", "\nlater"]) {
    await expect(piped(nothing)).rejects.toThrow("No PIN was given");
  }
  expect(await piped("1".repeat(MOST))).toHaveLength(MOST);
  for (const long of [MOST + 1, 3 * MOST]) {
    await expect(piped("1".repeat(long))).rejects.toThrow(`A PIN has at most ${MOST} bytes`);
  }
});

test("what was read of it is overwritten", async () => {
  const { stream } = input([]);
  const pieces = [Buffer.from("12"), Buffer.from("34\n")];
  const reading = readPin(undefined);
  for (const piece of pieces) stream.emit("data", piece);
  expect((await reading).toString()).toBe("1234");
  expect(pieces).toEqual([Buffer.alloc(2), Buffer.alloc(3)]);
});

test("a file's first line is the PIN; a longer one than may be is refused there too", async () => {
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
