import { describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { nameOf, podsOf, render } from "./render.ts";
import { mergeValues, PLACE, PRODUCTION, VALUES } from "./values.ts";

const program = await helm("v4");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

const SECTIONS = ["api", "operator", "worker", "migrate", "keyvault", "doctor"];
const PLACED = Object.fromEntries(SECTIONS.map((section) => [section, PLACE]));
const BACKUP = { backup: { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } } };

describe.skipIf(program.missing !== undefined)("pods of the chart", () => {
  test.each([
    ["a production release", PRODUCTION],
    ["a trial", { ...VALUES.trial, trial: { enabled: true, postgres: PLACE } }],
  ])("all run where the values of %s place them", async (_, values) => {
    const placed = mergeValues(mergeValues(values, PLACED), { keyvault: BACKUP });
    for (const isUpgrade of [false, true]) {
      const pods = podsOf(await render(program.path ?? "", placed, { isUpgrade }));
      expect(pods.length).toBeGreaterThan(8);
      for (const { of, template } of pods) expect(template.spec, nameOf(of)).toMatchObject(PLACE);
    }
  });
});
