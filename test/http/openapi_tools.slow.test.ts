import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TestApi } from "../support/api.ts";
import { openApiNode, openApiPython, ran, type Tool } from "../support/outside_tools.ts";
import { GENERATED_CLIENT_PROGRAM, GENERATED_TYPES_PROGRAM } from "./support/generated_programs.ts";
import { published } from "./walk/documented.ts";
import { type Scene, setScene } from "./walk/scene.ts";
import { startWholeApi } from "./walk/world.ts";

const TSC = new URL("../../node_modules/.bin/tsc", import.meta.url).pathname;

let folder: string;
let document: string;
let node: Tool;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-openapi-"));
  document = join(folder, "openapi.json");
  await writeFile(document, JSON.stringify(published));
  node = await openApiNode();
}, 600_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

function need(tool: Tool, skip: (why: string) => never): string {
  if (tool.missing === undefined) return tool.folder;
  console.warn(`SKIPPED: ${tool.missing}`);
  return skip(tool.missing);
}

/** Compiles TypeScript files with strict settings that API users may have. */
async function compile(): Promise<void> {
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    target: "esnext",
    module: "esnext",
    moduleResolution: "bundler",
    lib: ["esnext", "dom", "dom.iterable"],
    types: [],
    allowImportingTsExtensions: true,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["**/*.ts"] }));
  expect(await ran(TSC, ["-p", folder])).toMatchObject({ code: 0, said: "" });
}

describe("the OpenAPI document", () => {
  test("passes openapi-spec-validator", async ({ skip }) => {
    const env = { PYTHONPATH: need(await openApiPython(), skip) };
    const validate = (file: string) => ran("python3", ["-m", "openapi_spec_validator", file], { env });
    expect(await validate(document)).toMatchObject({ code: 0, said: expect.stringContaining("OK") });
    const wrong = join(folder, "wrong.json");
    await writeFile(
      wrong,
      (await readFile(document, "utf8")).replaceAll('"pattern":"^', '"pattern":"^\\\\P{Cc}'),
    );
    expect((await validate(wrong)).said).toContain("is not a 'regex'");
  });

  test("causes only the expected warnings of Redocly's recommended rules", async ({ skip }) => {
    const redocly = join(need(node, skip), "node_modules/.bin/redocly");
    const { printed } = await ran(redocly, ["lint", document, "--format=json", "--max-problems=1000"], {
      cwd: folder,
      env: { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
    });
    const report = JSON.parse(printed) as {
      problems: { ruleId: string; location: { pointer?: string }[] }[];
    };
    const found = report.problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer ?? ""}`);
    expect(found.sort()).toEqual(MEANT);
  });
});

/** Expected warnings, each with its reason. */
const MEANT = [
  // Fixed segments take precedence over parameters, and no certificate has the id "requests".
  ...["chain", "revoke", "use"].map(
    (last) => `no-ambiguous-paths #/paths/~1v1~1service~1delegations~1{cert_id}~1${last}`,
  ),
].sort();

describe("clients generated from the OpenAPI document", () => {
  let api: TestApi;
  let scene: Scene;
  beforeAll(async () => {
    api = await startWholeApi();
    scene = await setScene(api);
  });
  afterAll(() => api.stop());

  test("compile with openapi-typescript, and do not compile if used wrongly", async ({ skip }) => {
    const generate = join(need(node, skip), "node_modules/.bin/openapi-typescript");
    const { code, said } = await ran(generate, [document, "-o", join(folder, "types.ts")]);
    expect([code, said]).toEqual([0, said]);
    await writeFile(join(folder, "types_program.ts"), GENERATED_TYPES_PROGRAM);
    await compile();
  });

  test("compile with @hey-api/openapi-ts, and work with a running API", async ({ skip }) => {
    const generate = join(need(node, skip), "node_modules/.bin/openapi-ts");
    const config = join(folder, "openapi-ts.config.mjs");
    const output = { path: join(folder, "client"), module: { extension: ".ts" } };
    const plugins = ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"];
    await writeFile(config, `export default ${JSON.stringify({ input: document, output, plugins })};`);
    const { code, said } = await ran(generate, ["-f", config, "--no-log-file"], { cwd: folder });
    expect([code, said]).toEqual([0, said]);
    const program = join(folder, "client_program.ts");
    await writeFile(program, GENERATED_CLIENT_PROGRAM);
    await compile();
    const { run } = (await import(pathToFileURL(program).href)) as {
      run(world: Record<string, string>): Promise<Record<string, unknown>>;
    };
    const seen = await run({
      baseUrl: api.url,
      apiKey: scene.platform.apiKey,
      connectionId: scene.platform.connectionId,
      agentId: scene.agentId,
    });
    expect(seen).toEqual({
      scopes: true,
      decision: "allow",
      again: ["invalid_challenge", 400],
      stranger: ["invalid_api_key", 401],
      twice: true,
    });
  });
});
