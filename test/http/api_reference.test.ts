import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { errorCodes } from "../../src/errors.ts";
import { decisionReasons } from "../../src/proofs/decide/reasons.ts";
import { contract } from "./walk/documented.ts";

const PROOFS = new URL("../../src/proofs/", import.meta.url);
const text = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");

describe("docs/api.md", () => {
  test.each(
    contract.operations
      .filter(({ path }) => !path.includes("/ext-auth"))
      .map(({ method, path }) => [`${method} ${path}`]),
  )("describes %s", (call) => {
    expect(text).toContain(`\`${call}\``);
  });

  test("names only existing calls", () => {
    const known = contract.operations.map(({ method, path }) => `${method} ${path}`);
    const named = [...text.matchAll(/`((?:GET|POST|PUT|PATCH|DELETE) \/[^`]*)`/g)].map(([, call]) => call);
    expect(named.filter((call) => !known.includes(call ?? ""))).toEqual([]);
  });

  test("lists exactly the existing decision reasons", () => {
    const rows = text
      .slice(text.indexOf("### What verify answers"))
      .matchAll(/^\| `(allow|deny|indeterminate)` \| (.*) \|$/gm);
    const listed = [...rows].map(([, decision, reasons = ""]) => [
      decision,
      [...reasons.matchAll(/`(\w+)`/g)].map(([, reason]) => reason).sort(),
    ]);
    const known = Object.entries(decisionReasons).map(([decision, reasons]) => [
      decision,
      [...reasons].sort(),
    ]);
    expect(listed.sort()).toEqual(known.sort());
  });

  test("names only decision reasons that a rule or the deciding statement uses", () => {
    const sources = readdirSync(PROOFS, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => readFileSync(new URL(file, PROOFS), "utf8"))
      // Skips the table of decision reasons, which defines the reasons but does not use them.
      .map((source) => source.slice(Math.max(0, source.indexOf("export const DENIALS"))));
    const places = (reason: string) =>
      sources.reduce((sum, source) => sum + source.split(new RegExp(`["']${reason}["']`)).length - 1, 0);
    const unused = Object.values(decisionReasons)
      .flat()
      .filter((reason) => places(reason) < 1);
    expect(unused).toEqual([]);
    const statement = readFileSync(new URL("decide/decide_and_charge.ts", PROOFS), "utf8");
    const given = [...statement.matchAll(/then '(\w+)'$/gm)].map(([, reason]) => reason);
    const unclear = [...statement.matchAll(/'(\w+)' then 'indeterminate'/g)].map(([, reason]) => reason);
    expect([given.length, unclear.length]).toEqual([6, 1]);
    for (const reason of given) {
      expect(decisionReasons[unclear.includes(reason) ? "indeterminate" : "deny"]).toContain(reason);
    }
  });

  test("names only existing error codes", () => {
    const named = [...text.matchAll(/\b[45]\d\d `([a-z]+_[a-z_]+)`/g)].map(([, code]) => code ?? "");
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((code) => !(code in errorCodes))).toEqual([]);
  });

  test("lists every error code with its status and meaning", () => {
    const rows = Object.entries(errorCodes).map(
      ([code, [status, when]]) => `| \`${code}\` | ${status} | ${when} |`,
    );
    expect(text.slice(text.indexOf("## Error codes")).trim().split("\n").slice(4)).toEqual(rows);
  });
});
