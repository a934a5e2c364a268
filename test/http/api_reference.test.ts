import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { errorCodes } from "../../src/errors.ts";
import { contract } from "./walk/documented.ts";

const text = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");

describe("docs/api.md", () => {
  test.each(
    contract.operations
      .filter(({ path }) => !path.includes("/ext-auth"))
      .map(({ method, path }) => [`${method} ${path}`]),
  )("tells of %s", (call) => {
    expect(text).toContain(`\`${call}\``);
  });

  test("names no call that does not exist", () => {
    const known = contract.operations.map(({ method, path }) => `${method} ${path}`);
    const named = [...text.matchAll(/`((?:GET|POST|PUT|PATCH|DELETE) \/[^`]*)`/g)].map(([, call]) => call);
    expect(named.filter((call) => !known.includes(call ?? ""))).toEqual([]);
  });

  test("lists the error codes as they are", () => {
    const rows = Object.entries(errorCodes).map(
      ([code, [status, when]]) => `| \`${code}\` | ${status} | ${when} |`,
    );
    expect(text.slice(text.indexOf("## Error codes")).trim().split("\n").slice(4)).toEqual(rows);
  });
});
