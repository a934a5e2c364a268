import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { proofApi } from "../proofs/application.ts";
import { codeBlocks } from "../support/markdown.ts";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLES = join(ROOT, "docs/examples/agent");
const PROGRAMS = ["application.mjs", "agent.mjs"];
const run = promisify(execFile);
const world = proofApi();

let project: string;
let shop: ChildProcess | undefined;

/** Creates a project with the examples, whose package is the project's own sources. */
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "deputize-agent-"));
  const installed = join(project, "node_modules/deputize");
  await mkdir(installed, { recursive: true });
  await symlink(join(ROOT, "node_modules/express"), join(project, "node_modules/express"));
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
  shop?.kill();
  await rm(project, { recursive: true, force: true });
});

test("the page for agent authors shows the examples that this test runs", async () => {
  const shown = (await codeBlocks("docs/agents.md")).map(({ code }) => code);
  for (const name of PROGRAMS) expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
});

test("the example agent does what the example application allows, until the person revokes", async () => {
  const { person, platform, agentId, certId } = await world.application(["data:read"]);
  const env = {
    PATH: process.env.PATH,
    PORT: "0",
    BASE_URL: world.api.url,
    API_KEY: platform.apiKey,
    AGENT_ID: agentId,
    VERIFIER_ID: platform.connectionId,
    WORKSPACE_ID: person.accountId,
  };
  shop = spawn(process.execPath, ["application.mjs"], {
    cwd: project,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (shop.stdout === null) throw new Error("the example has no output");
  const [url] = await once(createInterface(shop.stdout), "line");
  const act = async () =>
    (await run(process.execPath, ["agent.mjs"], { cwd: project, env: { ...env, SHOP_URL: String(url) } }))
      .stdout;
  expect(await act()).toBe(`200 {"ordered":{"item":"coal"},"for":"${person.humanId}"}\n`);
  expect((await person.client.post(`/v1/service/delegations/${certId}/revoke`)).status).toBe(200);
  expect(await act()).toBe("NotDelegated no_active_delegation\n");
});
