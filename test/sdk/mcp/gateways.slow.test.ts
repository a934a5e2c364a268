import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { npmPackages, pythonPackages } from "../../support/outside_tools.ts";
import { bankFor, expectPayment, PAYMENT, type Paid } from "./bank.ts";

const NPM = ["supergateway@4.0.0", "mcp-remote@0.15.1", "@marcbachmann/cel-js@8.0.0"];
const npm = await npmPackages("mcp-gateways-2", NPM);
const pypi = await pythonPackages("mcp-gateways-python-1", ["mcp-proxy==0.13.0"]);
const missing = npm.missing ?? pypi.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const installed = (path: string) => join(`${npm.folder}`, "node_modules", path);
/** The command of each gateway, which serves a server over HTTP on stdio. */
const GATEWAYS = {
  supergateway: (url: string) => [
    ...[process.execPath, installed("supergateway/dist/index.js"), "--streamableHttp", url],
    ...["--outputTransport", "stdio"],
  ],
  "mcp-remote": (url: string) => [
    process.execPath,
    installed("mcp-remote/dist/proxy.js"),
    url,
    "--allow-http",
  ],
  "mcp-proxy": (url: string) => ["python3", "-m", "mcp_proxy", "--transport", "streamablehttp", url],
};

const world = proofApi();
const tools: { paid: Paid[] } = { paid: [] };
let app: Application;
/** Some gateways write to the home folder. */
let home: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "deputize-gateways-"));
  app = await world.application();
});
afterAll(() => rm(home, { recursive: true, force: true }));

test.skipIf(missing !== undefined).each(Object.keys(GATEWAYS) as (keyof typeof GATEWAYS)[])(
  "%s passes a proof and a refusal on between a client and a guarded server",
  { timeout: 240_000 },
  async (name) => {
    const served = await bankFor(app, world.api.url, "SDK 2.x over HTTP", tools);
    const [command = "", ...args] = GATEWAYS[name](`${served.url}`);
    const env = { PATH: process.env.PATH ?? "", PYTHONPATH: `${pypi.folder}`, HOME: home };
    const client = new Client({ name: "agent", version: "1" });
    try {
      await client.connect(served.wrap(new StdioClientTransport({ command, args, env, stderr: "ignore" })));
      const call = (tool: string, given: object) => client.callTool({ name: tool, arguments: { ...given } });
      await expectPayment(call, app, tools);
    } finally {
      await client.close();
      await served.stop();
    }
  },
);

type Environment = {
  registerVariable(name: string, type: string): Environment;
  evaluate(expression: string, variables: object): unknown;
};
type Cel = { Environment: new () => Environment };

test.skipIf(missing !== undefined)(
  "the mapping on the page on MCP, in CEL, makes the request on the page without its operation",
  async () => {
    const { Environment } = (await import(installed("@marcbachmann/cel-js/lib/index.js"))) as Cel;
    const cel = new Environment().registerVariable("params", "dyn");
    const proof = { agent_id: "…", proof_ref: "…" };
    const params = { name: "send_payment", arguments: PAYMENT, _meta: { [AUTHORITY]: proof } };
    const resolved = (value: unknown): unknown => {
      if (typeof value === "string") {
        return value.startsWith("$") ? cel.evaluate(value.slice(1), { params }) : value;
      }
      const members = Object.entries(value as object);
      return Object.fromEntries(members.map(([name, member]) => [name, resolved(member)]));
    };
    const shown = await codeBlocks("docs/mcp.md", "The mapping and the request");
    const [mapping, request] = shown.map(({ code }) => JSON.parse(code));
    delete request.context.operation;
    expect(resolved(mapping.evaluation)).toEqual(request);
  },
);
