import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { crossVectors } from "./make_cross.ts";
import { ed25519Cases } from "./make_ed25519.ts";
import { mlDsa65Cases } from "./make_ml_dsa_65.ts";
import { negativeCases } from "./make_negative.ts";
import { receiptVector } from "./make_receipt.ts";
import { SCOPE_VECTORS, STATEMENT_VECTORS } from "./make_statements.ts";
import { TRANSACTION_VECTORS } from "./make_transactions.ts";
import { verifyVector } from "./make_verify.ts";
import { VERIFY_CASES } from "./verify_cases.ts";
import { workedExample } from "./worked_example.ts";

/** A file of vectors: its name, and a function that creates its content. */
type VectorFile = [name: string, make: () => object];

const FILES: VectorFile[] = [
  ["signatures/ed25519.json", ed25519Cases],
  ["signatures/ml_dsa_65.json", mlDsa65Cases],
  ["receipt.json", receiptVector],
  ["conformance/v1/own_cross_vectors.json", crossVectors],
  ["conformance/wire-negative/cases.json", negativeCases],
  ...VERIFY_CASES.map((each): VectorFile => [`conformance/v1/${each.name}.json`, () => verifyVector(each)]),
  ...[...STATEMENT_VECTORS, ...TRANSACTION_VECTORS, ...SCOPE_VECTORS].map(
    ([name, make]): VectorFile => [`conformance/v1/${name}.json`, make],
  ),
];

/**
 * All vectors, each created at most once per run. Every run creates the same content. `digests.json` contains
 * each vector's SHA-256.
 */
export const VECTOR_FILES: ReadonlyMap<string, () => object> = new Map(
  FILES.map(([name, make]) => {
    let made: object | undefined;
    return [
      name,
      () => {
        made ??= make();
        return made;
      },
    ];
  }),
);

/** The vectors that the documentation links to. All other vectors are generated where they are needed. */
export const KEPT_FILES = ["receipt.json", "conformance/v1/own_worked_example.json"];

/** Returns a conformance vector by name, with the same value as if it were read from its file. */
export function vectorOf(name: string): Record<string, unknown> {
  const make = VECTOR_FILES.get(`conformance/v1/${name}.json`);
  if (make === undefined) throw new Error(`there is no vector ${name}`);
  return JSON.parse(JSON.stringify(make()));
}

/** Writes the named vectors to a folder. */
export function writeVectors(folder: string, names: Iterable<string> = VECTOR_FILES.keys()): void {
  for (const name of names) {
    const file = resolve(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(VECTOR_FILES.get(name)?.(), null, 2)}\n`);
  }
}

/** Returns, by file name, the SHA-256 of each vector's JSON without white space. */
export function digests(): Record<string, string> {
  return Object.fromEntries(
    [...VECTOR_FILES].map(([name, make]) => [name, hash("sha256", JSON.stringify(make()))]),
  );
}

/** Returns the page with a new example between the page's two marks. */
export function withExample(page: string): string {
  const [start, end] = [
    "<!-- worked example: made by test/vectors/make.ts -->",
    "<!-- end of worked example -->",
  ];
  const [before = "", rest = ""] = page.split(start);
  const [, after = ""] = rest.split(end);
  return `${before}${start}\n\n${workedExample()}\n\n${end}${after}`;
}

/**
 * `node test/vectors/make.ts [folder]`: writes all vectors to a folder. Without a folder, updates the files
 * that the repository contains.
 */
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) keep();
  else writeVectors(folder);
}

function keep(): void {
  const here = import.meta.dirname;
  writeVectors(here, KEPT_FILES);
  writeFileSync(resolve(here, "digests.json"), `${JSON.stringify(digests(), null, 2)}\n`);
  const page = resolve(here, "../../docs/wire_format.md");
  writeFileSync(page, withExample(readFileSync(page, "utf8")));
  execFileSync("biome", ["format", "--write", here], { stdio: "inherit" });
}
