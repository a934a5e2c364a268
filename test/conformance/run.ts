import { readdir, readFile } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import { z } from "zod";
import { asObject } from "../../src/protocol/encoding/fields.ts";
import { type JsonObject, type JsonValue, parseJson } from "../../src/protocol/encoding/json.ts";
import { checkCrossVector } from "./cross.ts";
import { checkNegativeCase } from "./negative.ts";
import { checkVector } from "./vectors.ts";

export type Mismatch = {
  check: string;
  expected: unknown;
  got: unknown;
};

export type VectorResult = {
  kind: string;
  name: string;
  mismatches: Mismatch[];
};

const ABSENT = ["ENOENT", "ENOTDIR"];
const FILE_LIMITS = { bytes: 64 * 1024 * 1024, depth: 64 };

/** Recognizes the kinds of vector files by their path in the folder. The first match applies. */
const FILES: readonly [RegExp, (file: string) => Promise<VectorResult[]>][] = [
  [/(^|\/)README\.md$/, async () => []],
  [/^v1\/[^/]+\.json$/, runVectors],
  [/^wire-negative\/[^/]+\.json$/, (file) => runList(file, "wire-negative", "cases", checkNegativeCase)],
];

/**
 * Runs every file of a folder: `v1/*.json` with one vector or a list `vectors`, and `wire-negative/*.json`
 * with a list `cases`. Either part may be absent. Any other file or content, except a `README.md` in any
 * folder, counts as a failed vector.
 */
export async function runConformance(folder: string): Promise<VectorResult[]> {
  const outcomes: VectorResult[] = [];
  for (const path of await filesOf(folder)) {
    const run = FILES.find(([pattern]) => pattern.test(path))?.[1];
    outcomes.push(...(run === undefined ? [unknownFile(path)] : await run(join(folder, path))));
  }
  return outcomes;
}

async function runVectors(file: string): Promise<VectorResult[]> {
  let isList = false;
  const outcome = await guarded(basename(file), "vector", async () => {
    const document = await read(file);
    isList = Object.hasOwn(document, "vectors");
    return isList ? { kind: "vector", name: basename(file), mismatches: [] } : checkVector(document);
  });
  return isList ? runList(file, "vector", "vectors", checkCrossVector) : [outcome];
}

async function runList(
  file: string,
  kind: string,
  member: string,
  check: (item: JsonObject) => VectorResult | Promise<VectorResult>,
): Promise<VectorResult[]> {
  let items: JsonValue | undefined;
  const opened = await guarded(basename(file), kind, async () => {
    items = (await read(file))[member];
    if (!Array.isArray(items) || items.length === 0) throw new Error(`there is no list of ${member}`);
    return { kind, name: basename(file), mismatches: [] };
  });
  if (!Array.isArray(items) || items.length === 0) return [opened];
  const outcomes: VectorResult[] = [];
  for (const [index, item] of items.entries()) {
    outcomes.push(await guarded(`${basename(file)}[${index}]`, kind, async () => check(asObject(item))));
  }
  return outcomes;
}

function unknownFile(path: string): VectorResult {
  const expected = "README.md, v1/*.json or wire-negative/*.json";
  return { kind: "file", name: path, mismatches: [{ check: "the file is known", expected, got: path }] };
}

/** Returns the folder in `CONFORMANCE_VECTORS` or `../shared/conformance`, relative to the project's root. */
export function conformanceFolder(): string {
  const root = resolve(import.meta.dirname, "../..");
  return resolve(root, process.env.CONFORMANCE_VECTORS ?? "../shared/conformance");
}

async function read(file: string): Promise<JsonObject> {
  return asObject(parseJson(await readFile(file), FILE_LIMITS));
}

/** Returns an empty list if the folder does not exist. */
async function filesOf(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
      .sort();
  } catch (error) {
    if (ABSENT.includes(String((error as NodeJS.ErrnoException).code))) return [];
    throw error;
  }
}

async function guarded(name: string, kind: string, run: () => Promise<VectorResult>): Promise<VectorResult> {
  try {
    return await run();
  } catch (error) {
    return {
      name,
      kind,
      mismatches: [{ check: "the vector can be run", expected: "a result", got: shortened(error) }],
    };
  }
}

function shortened(error: unknown): string {
  return error instanceof z.ZodError ? z.prettifyError(error).replaceAll("\n", " ") : String(error);
}
