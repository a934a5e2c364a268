import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { FuzzFinding } from "./loop.ts";
import type { Shorthand } from "./shorthand.ts";

const CORPUS = resolve(import.meta.dirname, "corpus");
const END = ".jsonl";

export type KeptInput = {
  target: string;
  /** The expected result. Absent if a finding has not been examined yet. */
  outcome?: string;
  why: string;
  input: Uint8Array;
};

/** An input as it is in the file: as text, or as base64 if it is not UTF-8. */
type Entry = {
  outcome?: string;
  why: string;
  text?: string;
  base64?: string;
};

/** Adds an input to its target's file unless the file contains it. Returns the file. */
export function keep(
  { target, outcome, why, input }: KeptInput,
  shorthand: Shorthand,
  folder = CORPUS,
): string {
  const file = join(folder, `${target}${END}`);
  const entries = existsSync(file) ? entriesOf(file) : [];
  const entry = { ...(outcome === undefined ? {} : { outcome }), why, ...written(shorthand.shorten(input)) };
  if (!entries.some(({ text, base64 }) => text === entry.text && base64 === entry.base64)) {
    mkdirSync(folder, { recursive: true });
    appendFileSync(file, `${JSON.stringify(entry)}\n`);
  }
  return file;
}

/** Stores a finding. Returns its file. */
export function keepFinding(
  { target, input, message }: FuzzFinding,
  shorthand: Shorthand,
  folder = CORPUS,
): string {
  return keep({ target, why: `found: ${message}`, input }, shorthand, folder);
}

/** Returns all stored inputs, with the keys and signatures of the current seeds. */
export function keptInputs(shorthand: Shorthand, folder = CORPUS): KeptInput[] {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(END)) : [];
  return files.sort().flatMap((name) =>
    entriesOf(join(folder, name)).map(({ text, base64, ...others }) => ({
      target: name.slice(0, -END.length),
      ...others,
      input: shorthand.restore(text === undefined ? Buffer.from(base64 ?? "", "base64") : Buffer.from(text)),
    })),
  );
}

function entriesOf(file: string): Entry[] {
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}

function written(short: Uint8Array): Pick<Entry, "text" | "base64"> {
  const bytes = Buffer.from(short);
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? { text } : { base64: bytes.toString("base64") };
}
