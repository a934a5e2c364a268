import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeBlocks } from "../support/markdown.ts";

const ROOT = join(import.meta.dirname, "../..");
const TSC = join(ROOT, "node_modules/.bin/tsc");
const LINKED = ["@types/node", "@types/express", "@types/koa", "@koa/router", "fastify", "hono", "zod"];
const OPTIONS = {
  strict: true,
  noEmit: true,
  exactOptionalPropertyTypes: true,
  moduleDetection: "force",
  module: "nodenext",
  target: "es2023",
  lib: ["es2023", "es2024.string"],
  types: ["node"],
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  /**
   * The project's own sources replace the package. `package.slow.test.ts` checks that the packed declarations
   * are the same.
   */
  paths: {
    "deputize/agent": [join(ROOT, "src/sdk/agent/agent.ts")],
    "deputize/guard": [join(ROOT, "src/sdk/guard.ts")],
    "deputize/webhook": [join(ROOT, "src/sdk/webhook.ts")],
  },
};
const run = promisify(execFile);
let project: string;

/**
 * Declarations that the examples of the documentation need, by page and heading. They contain only what the
 * text around an example states.
 */
const GUARD = `import { authorityOf, createGuard, guardExpress, guardFastify, guardFetch, guardKoa } from "deputize/guard";
declare const guard: import("deputize/guard").Guard;
declare function place(payload: unknown): object;`;
const GIVEN: Record<string, string> = {
  "guard.md The guard": `declare function currentKey(): string;
    declare function store(record: import("deputize/guard").VerificationRecord): Promise<void>;
    declare function log(fault: import("deputize/guard").GuardFault): void;`,
  "guard.md On whose authority": `import { createGuard } from "deputize/guard"; declare const baseUrl: string, apiKey: string;`,
  "guard.md Express": `declare const guard: import("deputize/guard").Guard;`,
  "guard.md Koa": `${GUARD} import Router from "@koa/router"; const router = new Router();`,
  "guard.md Fastify": `${GUARD} import Fastify from "fastify"; const app = Fastify(); declare function list(): Promise<object>;`,
  "guard.md Hono, Next, Deno, Bun": GUARD,
  "guard.md Bound to one operation": `${GUARD} import express from "express"; const app = express();`,
  "guard.md Without a framework": `${GUARD} declare const proof: string | undefined, payload: unknown;
    declare function act(payload: unknown): Promise<string>;
    declare function refuse(refusal: { status: 403 | 503; code: string; message: string }): void;`,
  "guard.md Webhooks": `declare const webhookSigningSecret: string;
    declare function storeOnce(delivery: { deliveryId: string; event: unknown; body: unknown }): Promise<void>;`,
  "events.md Checking the signature": `declare function storeOnce(id: unknown, event: unknown): Promise<void>;`,
};

/** Creates a project that has the package and the frameworks. */
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "deputize-examples-"));
  for (const name of LINKED) {
    const link = join(project, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(ROOT, "node_modules", name), link);
  }
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: OPTIONS }));
});

afterAll(() => rm(project, { recursive: true, force: true }));

async function complaints(files: Record<string, string>): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(project, name), text);
  return run(TSC, ["-p", "."], { cwd: project }).then(
    () => "",
    ({ stdout }) => String(stdout),
  );
}

test("every example in the documentation compiles in strict TypeScript", async () => {
  const files: Record<string, string> = {};
  for (const page of ["guard.md", "events.md"]) {
    for (const [n, { heading, language, code }] of (await codeBlocks(`docs/${page}`)).entries()) {
      if (!["js", "ts"].includes(language)) continue;
      const name = `${page}_${n}_${heading.replaceAll(" ", "_").toLowerCase()}.ts`;
      files[name] = `${GIVEN[`${page} ${heading}`] ?? ""}\n${code}`;
    }
  }
  expect(Object.keys(files).length).toBe(12);
  const wrong = 'import { createGuard } from "deputize/guard"; createGuard({ baseUrl, apiKey: 5 });';
  const found = await complaints({ ...files, "wrong.ts": `const baseUrl = ""; ${wrong}` });
  expect(found.split("\n").filter((line) => /^\S/.test(line))).toEqual([
    expect.stringMatching(/^wrong\.ts.*TS2322/),
  ]);
}, 120_000);
