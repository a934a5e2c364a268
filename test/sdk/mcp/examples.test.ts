import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { proofApi } from "../../proofs/application.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { exampleVariables } from "../example_variables.ts";

const ROOT = join(import.meta.dirname, "../../..");
const EXAMPLES = join(ROOT, "docs/examples/mcp");
const PROGRAMS = ["server.mjs", "agent.mjs"];
/** Other files that pin versions of clients and gateways. */
const PINS = ["python_environments", "mcp/vercel.slow.test", "mcp/gateways.slow.test"];
const run = promisify(execFile);
const world = proofApi();

let project: string;

/** Creates a project with the examples, whose package is the project's own sources. */
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "deputize-mcp-"));
  const installed = join(project, "node_modules/deputize");
  await mkdir(installed, { recursive: true });
  for (const name of ["@modelcontextprotocol", "zod"]) {
    await symlink(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  const entries = { "./agent": "agent/agent", "./guard": "guard", "./mcp": "mcp/mcp" };
  for (const [entry, source] of Object.entries(entries)) {
    const from = JSON.stringify(join(ROOT, `src/sdk/${source}.ts`));
    await writeFile(join(installed, `${entry}.mjs`), `export * from ${from};`);
  }
  const exports = Object.fromEntries(Object.keys(entries).map((entry) => [entry, `${entry}.mjs`]));
  await writeFile(join(installed, "package.json"), JSON.stringify({ name: "deputize", exports }));
  for (const name of PROGRAMS) await copyFile(join(EXAMPLES, name), join(project, name));
});

afterAll(() => rm(project, { recursive: true, force: true }));

test("the page on MCP shows the examples that this test runs", async () => {
  const shown = (await codeBlocks("docs/mcp.md")).map(({ code }) => code);
  for (const name of PROGRAMS) expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
});

test("the page on MCP names the versions of clients and gateways that the tests pin", async () => {
  const page = await readFile(join(ROOT, "docs/mcp.md"), "utf8");
  const [, section = ""] = page.split("## Who passes proofs on");
  const rows = [...section.matchAll(/^\| `(\S+)` \((?:npm|PyPI)\) \| (\S+) \|/gm)];
  const pins = ["package.json", ...PINS.map((name) => `test/sdk/${name}.ts`)];
  const text = (await Promise.all(pins.map((name) => readFile(join(ROOT, name), "utf8")))).join();
  const forms = rows.map(([, name, version]) => [
    `"${name}": "${version}"`,
    `"${name}@${version}"`,
    `"${name}==${version}"`,
  ]);
  expect(rows.length).toBeGreaterThan(8);
  expect(forms.filter((each) => !each.some((form) => text.includes(form)))).toEqual([]);
});

test("the example agent calls the example server over stdio, until the person revokes", async () => {
  const application = await world.application();
  const { person, certId } = application;
  const env = { PATH: process.env.PATH, ...(await exampleVariables(world, application)) };
  const act = async () => (await run(process.execPath, ["agent.mjs"], { cwd: project, env })).stdout;
  expect(await act()).toBe(`5 EUR to bob for ${person.humanId}\n`);
  expect((await person.client.post(`/v1/service/delegations/${certId}/revoke`)).status).toBe(200);
  expect(await act()).toBe("NotDelegated no_active_delegation\n");
});
