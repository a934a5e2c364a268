import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { HELMS, helm } from "../support/helm.ts";
import { CHART, nameOf, type Rendered, render, template } from "./render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "./values.ts";

const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
for (const { missing } of programs) if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** Values that other charts of an umbrella chart read. */
const FOREIGN: Values = { environment: "prod", postgresql: { auth: { existingSecret: "other" } }, tags: [1] };

/** Creates an umbrella chart that contains this chart, under another name if `alias` is given. */
async function umbrella(folder: string, name: string, alias?: string): Promise<string> {
  const chart = join(folder, name);
  await mkdir(join(chart, "charts"), { recursive: true });
  await cp(CHART, join(chart, "charts", "deputize"), { recursive: true });
  const condition = `${alias ?? "deputize"}.enabled`;
  const dependency = { name: "deputize", version: "*", condition, ...(alias !== undefined && { alias }) };
  const file = { apiVersion: "v2", name, version: "1.0.0", dependencies: [dependency] };
  await writeFile(join(chart, "Chart.yaml"), stringify(file));
  return chart;
}

let folder: string;
let plain: string;
let renamed: string;
let misnamed: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-umbrella-"));
  plain = await umbrella(folder, "platform");
  renamed = await umbrella(folder, "team", "lending");
  misnamed = await umbrella(folder, "squad", "Lending");
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Returns the objects by name, without the label that has the name of the chart. */
function byName(objects: readonly Rendered[]): [string, string][] {
  const texts = objects.map((object): [string, string] => [
    nameOf(object),
    JSON.stringify(object).replaceAll(/"helm\.sh\/chart":"[^"]*"/g, ""),
  ]);
  return texts.sort(([one], [other]) => (one < other ? -1 : 1));
}

describe.skipIf(programs.some(({ missing }) => missing !== undefined)).each(programs)(
  "an umbrella chart with helm $version",
  ({ path = "" }) => {
    const globals = { labels: { "example.test/team": "one" } };

    test.each(["production", "everything"])(
      "renders the same objects as the chart alone with %s",
      async (name) => {
        const values = mergeValues(VALUES[name] ?? {}, { global: globals });
        const global = { ...(values.global as Values), ...FOREIGN };
        const inside = { global, deputize: { ...values, enabled: true } };
        expect(byName(await render(path, inside, { chart: plain }))).toEqual(
          byName(await render(path, values)),
        );
      },
    );

    test("gives the chart's objects the name of its alias", async () => {
      const inside = { global: FOREIGN, lending: { ...PRODUCTION, enabled: true } };
      const objects = await render(path, inside, { chart: renamed });
      const alone = await render(path, mergeValues(PRODUCTION, { nameOverride: "lending" }));
      expect(byName(objects)).toEqual(byName(alone));
      expect(objects.map(nameOf)).toContain("Deployment deputize-lending-api");
    });

    test("renders nothing without the chart's condition", async () => {
      expect(await render(path, { deputize: { enabled: false } }, { chart: plain })).toEqual([]);
    });

    test("reports values of the chart that cannot work", async () => {
      const inside = { deputize: mergeValues(PRODUCTION, { operator: { clusterId: "" } }) };
      const { isGood, err } = await template(path, inside, { chart: plain });
      expect(err).toContain("operator.clusterId is empty.");
      expect(isGood).toBe(false);
    });

    test("an umbrella chart is refused if the alias is no part of a name", async () => {
      const { isGood, err } = await template(path, { Lending: PRODUCTION }, { chart: misnamed });
      expect(err).toContain("The names of Services would begin with deputize-Lending.");
      expect(isGood).toBe(false);
    });
  },
);
