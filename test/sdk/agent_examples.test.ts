import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Application, proofApi } from "../proofs/application.ts";
import { codeBlocks } from "../support/markdown.ts";
import { approve } from "../support/platform_world.ts";
import { exampleVariables } from "./example_variables.ts";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLES = join(ROOT, "docs/examples/agent");
const PROGRAMS = ["application.mjs", "agent.mjs", "ask.mjs", "hono.mjs", "loop.mjs"];
const run = promisify(execFile);
const world = proofApi();

let project: string;
const shops: ChildProcess[] = [];

/** Creates a project with the examples, whose package is the project's own sources. */
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "deputize-agent-"));
  const installed = join(project, "node_modules/deputize");
  await mkdir(installed, { recursive: true });
  for (const name of ["express", "hono", "@hono"]) {
    await symlink(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  const entries = { "./agent": "agent/agent", "./guard": "guard" };
  for (const [entry, source] of Object.entries(entries)) {
    const from = JSON.stringify(join(ROOT, `src/sdk/${source}.ts`));
    await writeFile(join(installed, `${entry}.mjs`), `export * from ${from};`);
  }
  const exports = Object.fromEntries(Object.keys(entries).map((entry) => [entry, `${entry}.mjs`]));
  await writeFile(join(installed, "package.json"), JSON.stringify({ name: "deputize", exports }));
  for (const name of PROGRAMS) await copyFile(join(EXAMPLES, name), join(project, name));
});

afterAll(async () => {
  for (const shop of shops) shop.kill();
  await rm(project, { recursive: true, force: true });
});

test("the page for agent authors shows the examples that this test runs", async () => {
  const shown = (await codeBlocks("docs/agents.md")).map(({ code }) => code);
  for (const name of PROGRAMS) expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
});

/** Starts an example application, and returns the variables of an agent that calls it. */
async function startShop(program: string, application: Application) {
  const env = { PATH: process.env.PATH, PORT: "0", ...(await exampleVariables(world, application)) };
  const shop = spawn(process.execPath, [program], {
    cwd: project,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  shops.push(shop);
  const [url] = await once(createInterface(shop.stdout), "line");
  return { ...env, SHOP_URL: String(url) };
}

test.each(["application.mjs", "hono.mjs"])(
  "the example agents do what %s allows, until the person revokes",
  async (program) => {
    const application = await world.application(["data:read"]);
    const { person, certId } = application;
    const env = await startShop(program, application);
    const act = async (agent: string) => (await run(process.execPath, [agent], { cwd: project, env })).stdout;
    const ordered = `{"ordered":{"item":"coal"},"for":"${person.humanId}"}`;
    expect(await act("agent.mjs")).toBe(`200 ${ordered}\n`);
    expect(await act("loop.mjs")).toBe(`[${ordered}]\n`);
    expect((await person.client.post(`/v1/service/delegations/${certId}/revoke`)).status).toBe(200);
    expect(await act("agent.mjs")).toBe("NotDelegated no_active_delegation\n");
    expect(await act("loop.mjs")).toMatch(/^\[{"error":".*Nothing was done.*"}\]\n$/);
  },
);

test("the example agent that asks orders after a person approved the order once", async () => {
  const application = await world.application([]);
  const env = await startShop("application.mjs", application);
  const agent = spawn(process.execPath, ["ask.mjs"], {
    cwd: project,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface(agent.stdout)[Symbol.asyncIterator]();
  const [, taskId = ""] = /^Please decide: (.+)$/.exec((await lines.next()).value ?? "") ?? [];
  const approved = await approve(application.person, taskId, ["data:read"], { once: true });
  expect(approved.status, approved.text).toBe(200);
  expect((await lines.next()).value).toMatch(/^200 {"ordered":{"item":"coal"}/);
});
