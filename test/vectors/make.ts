import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { crossVectors } from "./make_cross.ts";
import { ed25519Cases } from "./make_ed25519.ts";
import { mlDsa65Cases } from "./make_ml_dsa_65.ts";
import { negativeCases } from "./make_negative.ts";
import { receiptVector } from "./make_receipt.ts";
import { scopeVectors, statementVectors } from "./make_statements.ts";
import { transactionVectors } from "./make_transactions.ts";
import { verifyVector } from "./make_verify.ts";
import { VERIFY_CASES } from "./verify_cases.ts";
import { workedExample } from "./worked_example.ts";

/** Everything in this folder that is data, by file name. The same at every run. */
export function vectorFiles(): Map<string, unknown> {
  return new Map<string, unknown>([
    ["signatures/ed25519.json", ed25519Cases()],
    ["signatures/ml_dsa_65.json", mlDsa65Cases()],
    ["receipt.json", receiptVector()],
    ["conformance/v1/own_cross_vectors.json", crossVectors()],
    ["conformance/wire-negative/cases.json", negativeCases()],
    ...VERIFY_CASES.map((each): [string, unknown] => [
      `conformance/v1/${each.name}.json`,
      verifyVector(each),
    ]),
    ...[...statementVectors(), ...transactionVectors(), ...scopeVectors()].map(
      ([name, vector]): [string, unknown] => [`conformance/v1/${name}.json`, vector],
    ),
  ]);
}

/** The page with the example between its two marks made anew. */
export function withExample(page: string): string {
  const [start, end] = [
    "<!-- worked example: made by test/vectors/make.ts -->",
    "<!-- end of worked example -->",
  ];
  const [before = "", rest = ""] = page.split(start);
  const [, after = ""] = rest.split(end);
  return `${before}${start}\n\n${workedExample()}\n\n${end}${after}`;
}

if (import.meta.main) {
  for (const [name, content] of vectorFiles()) {
    const file = resolve(import.meta.dirname, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);
  }
  const page = resolve(import.meta.dirname, "../../docs/wire_format.md");
  writeFileSync(page, withExample(readFileSync(page, "utf8")));
  execFileSync("biome", ["format", "--write", import.meta.dirname], { stdio: "inherit" });
}
