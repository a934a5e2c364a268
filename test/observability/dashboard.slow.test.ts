import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { goProgram } from "../support/go_program.ts";
import { ran } from "../support/outside_tools.ts";
import { promtool } from "../support/promtool.ts";

type Dashboard = { panels: { title: string; targets?: { expr: string }[]; [field: string]: unknown }[] };

const FILE = join(import.meta.dirname, "../../charts/deputize/files/dashboard.json");
const text = await readFile(FILE, "utf8");
const schema = await goProgram({
  name: "dashboard",
  source: "./grafana",
  folder: "grafana-dashboard",
  what: "Grafana's library of dashboards",
});
const tool = await promtool();
for (const { missing } of [schema, tool])
  if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-dashboard-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function checked(change: (dashboard: Dashboard) => void = () => {}) {
  const dashboard: Dashboard = JSON.parse(text);
  change(dashboard);
  const file = join(folder, "dashboard.json");
  await writeFile(file, JSON.stringify(dashboard));
  return ran(schema.path ?? "", [file]);
}

describe.skipIf(schema.missing !== undefined)("Grafana's own schema", () => {
  test("finds every required field in the dashboard, and no unknown field", async () => {
    const { panels }: Dashboard = JSON.parse(text);
    expect(await checked()).toMatchObject({ code: 0, said: `${panels.length} panels\n` });
  });

  test.each([
    ["an unknown field", { colour: "red" }, "colour"],
    ["a title that is not a string", { title: 7 }, "title"],
    ["options of another panel type", { options: { pieType: "donut" } }, "pieType"],
  ])("rejects a panel with %s", async (_, change, said) => {
    const answer = await checked(({ panels }) => Object.assign(panels[1] ?? {}, change));
    expect(answer.code).toBe(1);
    expect(answer.said).toContain(said);
  });
});

test.skipIf(tool.missing !== undefined)(
  "each query of the dashboard is valid PromQL after its variables are replaced",
  async () => {
    const { panels }: Dashboard = JSON.parse(text);
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const rules = queries.map((expr, index) => ({
      record: `query:${index}`,
      expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$namespace", ".*"),
    }));
    const file = join(folder, "queries.json");
    await writeFile(file, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
    const { code, said } = await ran(tool.path ?? "", ["check", "rules", file]);
    expect(said).toContain(`SUCCESS: ${queries.length} rules found`);
    expect(code).toBe(0);
  },
);
