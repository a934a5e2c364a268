import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requestHash } from "../../src/protocol/documents/context_binding.ts";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { REFUSALS } from "../../src/sdk/agent/errors.ts";
import { type Application, proofApi } from "../proofs/application.ts";
import { codeBlocks } from "../support/markdown.ts";
import { npmPackages, ran } from "../support/outside_tools.ts";
import { approve } from "../support/platform_world.ts";
import { until } from "../support/process.ts";
import { exampleVariables } from "./example_variables.ts";
import { canonicalForm, documents } from "./python/documents.ts";
import { python } from "./python_environments.ts";

const ROOT = join(import.meta.dirname, "../..");
const PACKAGE = join(ROOT, "src/sdk/python");
const TESTS = join(import.meta.dirname, "python");
const example = (name: string) => join(ROOT, "docs/examples", name);
/** The example of each agent framework, and the name of its run in `scripted_models.py`. */
const TOOLS = {
  pydantic_ai: example("agent/pydantic_ai_tool.py"),
  openai_agents: example("agent/openai_agents_tool.py"),
};
const EXAMPLES = [
  ...["orders.py", "orders_flask.py", "orders_django.py", "order_agent.py", "ask_agent.py"].map(example),
  ...Object.values(TOOLS),
];
/** The command that starts each application of the documentation. */
const APPLICATIONS = {
  "orders.py": ["-m", "uvicorn", "orders:app", "--port", "0"],
  "orders_flask.py": ["-m", "flask", "--app", "orders_flask", "run", "--port", "0"],
  "orders_django.py": ["orders_django.py", "runserver", "--noreload", "127.0.0.1:0"],
};
/** Declarations that the other examples of the page need, in their order. */
const GIVEN = [
  `from deputize.guard import Guard, Refusal
from typing import Any
def act(payload: Any) -> None: ...
def refuse(refusal: Refusal) -> None: ...
guard, proof, payload = Guard("https://deputize.example", "k"), "", {"a": 1}`,
  `from fastapi import FastAPI, Request, Response
from deputize.webhook import WebhookEvent
app, webhook_signing_secret = FastAPI(), "whsec_x"
async def store_once(event: WebhookEvent) -> None: ...`,
];
const SEED = 20_261_130;
const DOCUMENTS = 20_000;

const { folder: pyright, missing: noPyright } = await npmPackages("pyright-1", ["pyright@1.1.414"]);
const old = (await ran("python3", ["-c", "import sys; assert sys.version_info >= (3, 11)"])).code !== 0;
const missing = python.missing ?? noPyright ?? (old ? "Python 3.11 or newer" : undefined);
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** The folder of a fresh virtual environment that contains only the wheel. The tools are elsewhere. */
let environment: string;
let folder: string;

/** Runs Python with the wheel and the tools, but without the sources of the package. */
async function runs(...args: string[]) {
  return ran(join(environment, "bin/python"), args, { cwd: folder, env: { PYTHONPATH: `${python.folder}` } });
}

describe.skipIf(missing !== undefined)("the Python package", () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-python-"));
    environment = join(folder, "environment");
    const env = { PYTHONPATH: `${python.folder}` };
    const build = ["-m", "hatchling", "build", "-t", "wheel", "-d", folder];
    expect((await ran("python3", build, { cwd: PACKAGE, env })).said).toContain(".whl");
    expect((await ran("python3", ["-m", "venv", "--without-pip", environment])).said).toBe("");
    const [wheel = ""] = (await readdir(folder)).filter((name) => name.endsWith(".whl"));
    const pip = ["-m", "pip", "--python", environment, "install", "--quiet", "--no-index", "--no-deps"];
    const installed = await ran("python3", [...pip, join(folder, wheel)]);
    expect(installed.code, installed.said).toBe(0);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("contains its types, and needs only the HTTP client", async () => {
    const program = `import importlib.metadata as m, json; d = m.distribution("deputize")
print(json.dumps([d.requires, d.version, sorted(map(str, d.files))]))`;
    const [requires, version, files] = JSON.parse((await runs("-c", program)).printed);
    const extras = [expect.stringMatching(/^mcp[<>=,\d.]+; extra == 'mcp'$/)];
    expect(requires).toEqual([expect.stringMatching(/^httpx2[<>=]/), ...extras]);
    expect(version).toBe(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")).version);
    expect(files).toEqual(expect.arrayContaining(["deputize/py.typed", "deputize/webhook.py"]));
    const others = files.filter((path: string) => !/^deputize(-[\d.]+\.dist-info)?\//.test(path));
    expect(others).toEqual([]);
  });

  test("passes its own tests", async () => {
    const { code, said } = await runs("-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS);
    expect(code, said).toBe(0);
  });

  test("passes the tests that need no compiled package on each other Python of this machine", async () => {
    const names = ["cases", "webhook", "wsgi", "own_key"].map((name) => `test_${name}.py`);
    const PYTHONPATH = [PACKAGE, python.folder].join(":");
    for (const version of ["3.12", "3.13"]) {
      // A version manager chooses among its versions by this variable.
      const env = { PYTHONPATH, PYENV_VERSION: version, PYTHONDONTWRITEBYTECODE: "1" };
      if ((await ran(`python${version}`, ["--version"], { env })).code !== 0) {
        console.error(`NOT TESTED, missing: Python ${version}`);
        continue;
      }
      const tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", ...names];
      const { code, said } = await ran(`python${version}`, tests, { cwd: TESTS, env });
      expect(code, said).toBe(0);
    }
  });

  test("has types and a style without faults", async () => {
    const config = join(PACKAGE, "pyproject.toml");
    const paths = [join(PACKAGE, "deputize"), TESTS, example("mcp"), ...EXAMPLES];
    const ruff = (...args: string[]) =>
      runs("-m", "ruff", ...args, "--no-cache", "--config", config, ...paths);
    const mypy = ["-m", "mypy", "--config-file", config, "--cache-dir", join(folder, "mypy"), ...paths];
    for (const { code, said } of [
      await ruff("check"),
      await ruff("format", "--check"),
      await runs(...mypy),
    ]) {
      expect(code, said).toBe(0);
    }
    await symlink(join(PACKAGE, "deputize"), join(folder, "deputize"));
    await symlink(TESTS, join(folder, "tests"));
    const folders = { include: ["deputize", "tests"], strict: ["deputize"] };
    const settings = { ...folders, extraPaths: [python.folder], pythonVersion: "3.11" };
    await writeFile(join(folder, "pyrightconfig.json"), JSON.stringify(settings));
    const program = join(`${pyright}`, "node_modules/pyright/index.js");
    const { code, said } = await ran(process.execPath, [program, "-p", folder]);
    expect(code, said).toBe(0);
  });

  test("has the errors of the TypeScript agent, with the same sentences", async () => {
    const program = `from deputize.agent.errors import REFUSALS
import json; print(json.dumps({code: [kind.__name__, text] for code, (kind, text) in REFUSALS.items()}))`;
    const expected = Object.entries(REFUSALS).map(([code, [kind, text]]) => [code, [kind.name, text]]);
    expect(JSON.parse((await runs("-c", program)).printed)).toEqual(Object.fromEntries(expected));
  });

  test("has a page whose code works", async () => {
    const blocks = (await codeBlocks("docs/python.md")).filter(({ language }) => language === "python");
    const codes = blocks.map(({ code }) => code);
    const examples = await Promise.all(EXAMPLES.map((path) => readFile(path, "utf8")));
    expect(codes).toEqual(expect.arrayContaining(examples));
    const others = codes.filter((code) => !examples.includes(code));
    expect(others).toHaveLength(GIVEN.length);
    const files = others.map((_, index) => join(folder, `example_${index}.py`));
    for (const [index, code] of others.entries()) {
      await writeFile(files[index] ?? "", `${GIVEN[index]}\n${code}`);
    }
    const mypy = ["-m", "mypy", "--strict", "--cache-dir", join(folder, "mypy"), ...files];
    const { code, said } = await runs(...mypy);
    expect(code, said).toBe(0);
    for (const file of files) expect((await runs(file)).said).toBe("");
  });

  test(`agrees with TypeScript on ${DOCUMENTS} documents with the seed ${SEED}`, async () => {
    const samples = fc.sample(documents, { seed: SEED, numRuns: DOCUMENTS });
    const input = join(folder, "documents");
    await writeFile(input, samples.map((document) => `${JSON.stringify(document)}\n`).join(""));
    const { printed, said } = await runs(join(TESTS, "canonical_forms.py"), input);
    const forms = printed.split("\n").slice(0, -1);
    expect(forms, said).toHaveLength(DOCUMENTS);
    const differences = samples.flatMap((document, index) => {
      const [here, there] = [canonicalForm(document), JSON.parse(forms[index] ?? "") as string | null];
      return here === there ? [] : [{ document, here, there }];
    });
    expect(differences).toEqual([]);
    const refused = forms.filter((form) => form === "null").length;
    expect(refused).toBeGreaterThan(DOCUMENTS / 10);
    expect(refused).toBeLessThan(DOCUMENTS / 2);
  });

  describe("with a running service", () => {
    const world = proofApi();

    async function variables(app: Application) {
      return { PYTHONPATH: `${python.folder}`, ...(await exampleVariables(world, app)) };
    }

    /** Starts an application of the documentation, and returns its address. */
    async function startOrders(app: Application, name: keyof typeof APPLICATIONS = "orders.py") {
      await cp(example(name), join(folder, name));
      const env = { ...process.env, ...(await variables(app)), PYTHONUNBUFFERED: "1" };
      const args = APPLICATIONS[name];
      const server = spawn(join(environment, "bin/python"), args, { cwd: folder, env, stdio: "pipe" });
      let said = "";
      for (const stream of [server.stdout, server.stderr]) {
        stream.on("data", (chunk) => {
          said += chunk;
        });
      }
      const address = () => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      await until("the example listens", () => address() !== undefined || server.exitCode !== null, 60_000);
      return { server, url: address() ?? said };
    }

    /** Runs the agent of the documentation, and returns its output. */
    async function act(app: Application, url: string, name = "order_agent.py"): Promise<string> {
      const env = { ...(await variables(app)), SHOP_URL: url };
      const agent = [example(name)];
      return (await ran(join(environment, "bin/python"), agent, { cwd: folder, env })).said;
    }

    /** Makes a proof for one request, as an agent does. */
    async function prove(
      app: Application,
      [required_scope, action, resource_id]: readonly [string, string, string],
      requested_path: string,
      payload: object,
    ) {
      const digest = createHash("sha256").update(canonicalBytes(payload)).digest();
      const named = { resource_id, requested_path };
      const hash = requestHash({ required_scope, operation: action, ...named, payload_digest: digest });
      const operation = {
        verifier_id: app.platform.connectionId,
        workspace_id: app.person.accountId,
        agent_id: app.agentId,
        action,
        ...named,
        session_id: "",
        invocation_id: randomUUID(),
        request_hash: Buffer.from(hash).toString("base64"),
        payload_digest: digest.toString("base64"),
      };
      const { status, body, text } = await app.present({ operation, required_scope });
      expect(status, text).toBe(200);
      return {
        "x-service-proof": String(body.proof_ref),
        "x-service-agent-id": app.agentId,
        "x-service-invocation-id": operation.invocation_id,
      };
    }

    test("lets an agent act until the person revokes the authority", async () => {
      const app = await world.application();
      const { server, url } = await startOrders(app);
      try {
        const call = async (path: string, body: object, headers: Record<string, string>) => {
          const json = { "content-type": "application/json" };
          const sent = { method: "POST", headers: { ...json, ...headers }, body: JSON.stringify(body) };
          const answer = await fetch(`${url}${path}`, sent);
          return [answer.status, await answer.json()];
        };
        const refusal = (code: string) => [
          403,
          expect.objectContaining({ error: expect.objectContaining({ code, status: 403 }) }),
        ];
        const order = { item: "tea", amount: 12.5 };
        expect(await call("/orders", order, {})).toEqual(refusal("no_authority_demonstrated"));
        expect(await act(app, url)).toBe("200 coal\n");

        const target = "/orders/7/refund?fast=1";
        const bound = await prove(app, ["payments:send", "refund", "7"], target, order);
        const more = { ...order, amount: 1250 };
        expect(await call(target, more, bound)).toEqual(refusal("no_authority_demonstrated"));
        expect(await call("/orders/7/refund", order, bound)).toEqual(refusal("no_authority_demonstrated"));
        const refunded = { order: "7", amount: 12.5, receipt: expect.any(String) };
        expect(await call(target, order, bound)).toEqual([200, refunded]);
        expect(await call(target, order, bound)).toEqual(refusal("invocation_replayed"));
        const invocation_id = bound["x-service-invocation-id"];
        const outcome = () =>
          world.api
            .db("invocations as i")
            .join("outcomes as o", "o.event_id", "i.event_id")
            .where({ "i.invocation_id": invocation_id })
            .first("o.outcome", "o.detail");
        await expect.poll(outcome).toEqual({ outcome: "executed", detail: "HTTP 200" });

        const late = await prove(app, ["data:read", "POST", ""], "/orders", order);
        await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
        expect(await call("/orders", order, late)).toEqual(refusal("delegation_revoked"));
        expect(await act(app, url)).toBe("NotDelegated no_active_delegation\n");
      } finally {
        server.kill();
      }
    });

    test("lets an agent ask, and act after a person approved the action once", async () => {
      const app = await world.application([]);
      const { server, url } = await startOrders(app);
      try {
        const asking = act(app, url, "ask_agent.py");
        const pending = () => world.api.db("delegation_requests").where({ agent_id: app.agentId }).first();
        await expect.poll(pending, { timeout: 20_000 }).toBeDefined();
        const { request_id: id = "" } = (await pending()) ?? {};
        const approved = await approve(app.person, id, ["data:read"], { once: true });
        expect(approved.status, approved.text).toBe(200);
        expect(await asking).toBe(`Please decide: ${id}\n200 coal\n`);
      } finally {
        server.kill();
      }
    });

    test("lets the tools of agent frameworks order once for each call of the model", async () => {
      const app = await world.application();
      const { server, url } = await startOrders(app);
      try {
        const use = async (framework: string, path: string, id: string) => {
          const env = { ...(await variables(app)), SHOP_URL: url };
          const args = [join(TESTS, "scripted_models.py"), framework, path, id];
          return (await ran(join(environment, "bin/python"), args, { cwd: folder, env })).said;
        };
        for (const [framework, path] of Object.entries(TOOLS)) {
          const id = randomUUID();
          expect(await use(framework, path, id)).toMatch(/^{'item': 'coal', 'agent': '.*'}\n$/);
          const again = "This invocation was decided before. Nothing was done again. (invocation_replayed)\n";
          expect(await use(framework, path, id)).toBe(again);
        }
        await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
        for (const [framework, path] of Object.entries(TOOLS)) {
          expect(await use(framework, path, randomUUID())).toMatch(/Nothing was done.*no_active_delegation/);
        }
      } finally {
        server.kill();
      }
    });

    test.each(["orders_flask.py", "orders_django.py"] as const)(
      "lets an agent act in the application %s, and refuses other callers",
      async (name) => {
        const app = await world.application();
        const { server, url } = await startOrders(app, name);
        try {
          expect(await act(app, url)).toBe("200 coal\n");
          const answer = await fetch(`${url}/orders`, { method: "POST", body: "{}" });
          expect([answer.status, await answer.json()]).toMatchObject([
            403,
            { error: { code: "no_authority_demonstrated" } },
          ]);
        } finally {
          server.kill();
        }
      },
    );
  });
});
