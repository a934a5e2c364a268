import { globSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ran } from "../support/outside_tools.ts";
import { promtool } from "../support/promtool.ts";

const ROOT = join(import.meta.dirname, "../..");
const RULES = globSync("docs/alerts/*.rules.yaml", { cwd: ROOT }).map((path) => join(ROOT, path));
const SUITES = join(import.meta.dirname, "alerts");
const { path = "", missing } = await promtool();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the alert rules", () => {
  test("pass promtool's check", async () => {
    expect(await ran(path, ["check", "rules", ...RULES])).toMatchObject({ code: 0 });
  });

  test.each(globSync("*.yaml", { cwd: SUITES }))("pass their tests in %s", async (file) => {
    const { code, said } = await ran(path, ["test", "rules", join(SUITES, file)]);
    expect(said).toContain("SUCCESS");
    expect(code).toBe(0);
  });
});
