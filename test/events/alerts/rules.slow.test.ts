import { globSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ran } from "../../support/outside_tools.ts";
import { promtool } from "../../support/promtool.ts";

const ROOT = join(import.meta.dirname, "../../..");
const RULES = join(ROOT, "docs/alerts/events.rules.yaml");
const { path = "", missing } = await promtool();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the alert rules", () => {
  test("are accepted by promtool", async () => {
    expect(await ran(path, ["check", "rules", RULES])).toMatchObject({ code: 0 });
  });

  test.each(globSync("*.yaml", { cwd: import.meta.dirname }))("fire as they should: %s", async (file) => {
    const { code, said } = await ran(path, ["test", "rules", join(import.meta.dirname, file)]);
    expect(said).toContain("SUCCESS");
    expect(code).toBe(0);
  });
});
