import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TestApi } from "../support/api.ts";
import { openApiPython, ran, type Tool } from "../support/outside_tools.ts";
import { credentialsOf, draftOf, idsOf } from "./walk/call.ts";
import { contract } from "./walk/documented.ts";
import { type Operation, readOpenApiDocument } from "./walk/openapi_document.ts";
import { type Scene, setScene } from "./walk/scene.ts";
import { startWholeApi } from "./walk/world.ts";

/** Seconds that Schemathesis may run for each kind of caller. `SCHEMATHESIS_SECONDS` sets them. */
const SECONDS = Number(process.env.SCHEMATHESIS_SECONDS ?? 35);

/**
 * Excluded calls: the first three end the caller's own credentials. The gateways' hook returns 503 where
 * other calls return 400 or 401.
 */
const LEFT_OUT = /^(logout|refresh_session|remove_connection|ext_auth_.*)$/;

/** Checks of Schemathesis that do not fit this API, each with its reason. */
const NOT_CHECKED = [
  // A schema cannot express that a scope is known, a challenge unspent or a proof genuine. Calls that break
  // these rules get 400.
  "positive_data_acceptance",
];

/**
 * Reports that Schemathesis causes itself: unexpected headers, and a received cookie that it omitted. It
 * reports an unknown parameter only together with such a cookie. An unknown parameter alone is not a finding.
 */
const NOT_FINDINGS = [
  /Invalid component: in header - object with unexpected properties/,
  /Invalid component: Missing `service_\w+` at cookie/,
  /Invalid component: parameter `service_\w+` in cookie - violates `required`/,
  /Invalid component:(\s+- (query|header): violates `additionalProperties`)*\s+- cookie: violates `required` \(was service_\w+\)(?!\s+- )/,
];

/** Returns the findings in the output, each with the steps to reproduce it. */
function findingsIn(said: string): string[] {
  const findings = said.split(/^- (?=ST\d+ )/m).slice(1);
  return findings.filter((finding) => !NOT_FINDINGS.some((pattern) => pattern.test(finding)));
}

let api: TestApi;
let folder: string;
let tool: Tool;

beforeAll(async () => {
  tool = await openApiPython();
  folder = await mkdtemp(join(tmpdir(), "deputize-schemathesis-"));
  api = await startWholeApi();
}, 600_000);
afterAll(async () => {
  await api.stop();
  await rm(folder, { recursive: true, force: true });
});

function documentOf(scene: Scene): Record<string, unknown> {
  const document = structuredClone(contract.document);
  const ids = idsOf(scene);
  for (const operation of readOpenApiDocument(document).operations) {
    for (const parameter of operation.parameters) {
      if (parameter.in === "path" && ids[parameter.name] !== undefined) {
        parameter.example = ids[parameter.name];
      }
    }
    const content = operation.requestBody?.content["application/json"];
    if (content !== undefined) content.example = draftOf(operation, scene).body;
  }
  return document;
}

async function check(scene: Scene, way: string, chosen: (operation: Operation) => boolean, python: string) {
  const operations = contract.operations.filter(
    (operation) => chosen(operation) && !LEFT_OUT.test(operation.operationId),
  );
  const [first] = operations as [Operation];
  const choice = first.security.findIndex((each) => way in each);
  const changing = operations.find(({ security }) => security.some((each) => "csrf" in each)) ?? first;
  const headers = credentialsOf(way === "session" ? changing : first, scene, Math.max(choice, 0));
  const file = join(folder, `${way}.json`);
  await writeFile(file, JSON.stringify(documentOf(scene)));
  return ran(
    "python3",
    [
      ...["-m", "schemathesis.cli", "run", file, "--url", api.url, "--no-color", "--seed", "1"],
      ...["--max-time", String(SECONDS), "--continue-on-failure", "--generation-database", "none"],
      ...["--phases", "examples,coverage,fuzzing", "--exclude-checks", NOT_CHECKED.join(",")],
      ...["--suppress-health-check", "all", "--request-timeout", "30", "--warnings", "off"],
      ...headers.flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
      ...operations.flatMap(({ operationId }) => ["--include-operation-id", operationId]),
    ],
    { cwd: folder, env: { PYTHONPATH: python }, ms: (SECONDS + 140) * 1000 },
  );
}

describe("Schemathesis finds no difference from the OpenAPI document", () => {
  const takes = (way: string) => (operation: Operation) => operation.security.some((each) => way in each);

  test.each([
    ["a person", "session", takes("session")],
    [
      "an application, including calls without credentials",
      "api_key",
      (operation: Operation) => takes("api_key")(operation) || operation.security.length === 0,
    ],
  ])("in calls by %s", async (_, way, chosen) => {
    if (tool.missing !== undefined) return console.warn(`SKIPPED: ${tool.missing}`);
    const scene = await setScene(api, { organization: true });
    const { code, said } = await check(scene, way, chosen, tool.folder);
    expect(findingsIn(said)).toEqual([]);
    expect(said).toMatch(/^ {2}[1-9]\d{2,} generated/m);
    expect([said.match(/^=+ ERRORS =+$/m), code > 0]).toEqual([null, / unique failures?/.test(said)]);
  });
});
