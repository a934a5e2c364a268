import { readdir, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { type JsonObject, type JsonValue, parseJson } from "../../src/protocol/json.ts";
import { asObject } from "../../src/protocol/shape.ts";
import { checkNegativeCase } from "./conformance_negative.ts";
import { checkVector } from "./conformance_vectors.ts";

/** One expectation of a vector that is not met. */
export interface Mismatch {
  check: string;
  expected: unknown;
  got: unknown;
}

/** How one vector came out. */
export interface Outcome {
  kind: string;
  name: string;
  mismatches: Mismatch[];
}

const ABSENT = ["ENOENT", "ENOTDIR"];
const FILE_LIMITS = { bytes: 64 * 1024 * 1024, depth: 64 };

/**
 * Runs all vectors of a folder: `v1/*.json` with one vector each, and `wire-negative/*.json` with a list `cases` each. Either part
 * may be absent. What cannot be read as what its place promises counts as a vector that failed.
 */
export async function runConformance(folder: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const file of await jsonFiles(join(folder, "v1"))) {
    outcomes.push(await guarded(basename(file), "vector", async () => checkVector(await read(file))));
  }
  for (const file of await jsonFiles(join(folder, "wire-negative"))) outcomes.push(...(await runCases(file)));
  return outcomes;
}

async function runCases(file: string): Promise<Outcome[]> {
  let cases: JsonValue | undefined;
  const opened = await guarded(basename(file), "wire-negative", async () => {
    cases = (await read(file)).cases;
    if (!Array.isArray(cases) || cases.length === 0) throw new Error("there is no list of cases");
    return { kind: "wire-negative", name: basename(file), mismatches: [] };
  });
  if (!Array.isArray(cases) || cases.length === 0) return [opened];
  const outcomes: Outcome[] = [];
  for (const [index, item] of cases.entries()) {
    const name = `${basename(file)}[${index}]`;
    outcomes.push(await guarded(name, "wire-negative", () => checkNegativeCase(asObject(item))));
  }
  return outcomes;
}

/** The folder that `CONFORMANCE_VECTORS` names, else `../shared/conformance`; both seen from the project's root. */
export function conformanceFolder(): string {
  const root = resolve(import.meta.dirname, "../..");
  return resolve(root, process.env.CONFORMANCE_VECTORS ?? "../shared/conformance");
}

async function read(file: string): Promise<JsonObject> {
  return asObject(parseJson(await readFile(file), FILE_LIMITS));
}

async function jsonFiles(folder: string): Promise<string[]> {
  try {
    const names = await readdir(folder);
    return names
      .filter((name) => name.endsWith(".json"))
      .sort()
      .map((name) => join(folder, name));
  } catch (error) {
    if (ABSENT.includes(String((error as NodeJS.ErrnoException).code))) return [];
    throw error;
  }
}

async function guarded(name: string, kind: string, run: () => Promise<Outcome>): Promise<Outcome> {
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

/** What went wrong, in one line. */
function shortened(error: unknown): string {
  return error instanceof z.ZodError ? z.prettifyError(error).replaceAll("\n", " ") : String(error);
}
