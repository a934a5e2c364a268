import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { freePort } from "../../../src/dev/process/ports.ts";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { proofApi } from "../../proofs/application.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { kubeconfigText } from "../../support/kubernetes/kubeconfig.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { PAYMENT } from "../mcp/bank.ts";
import { HTTP_SERVERS } from "./proxied.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const NAMESPACE = "bank";
const run = promisify(execFile);
const world = proofApi();
const binary = await kubernetesBinary();
const kubectl = await run("kubectl", ["version", "--client"]).then(
  () => undefined,
  () => "kubectl",
);
const missing = binary.missing ?? kubectl;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

type Container = {
  name: string;
  args: string[];
  env: { name: string; value: string }[];
  volumeMounts: { name: string; mountPath: string }[];
};
type PodTemplate = {
  metadata: object;
  spec: { containers: Container[]; volumes: Record<string, unknown>[] };
};

const blocks = await codeBlocks("docs/mcp.md");
const manifest = blocks.find(({ code }) => code.includes("kind: Deployment"))?.code ?? "";
const page = await readFile(join(import.meta.dirname, "../../../docs/mcp.md"), "utf8");
const commands = (page.match(/^ *kubectl create .*$/gm) ?? []).join("\n");
const [deployment, service] = parseAllDocuments(manifest).map((document) => document.toJS());
const template = deployment?.spec?.template as PodTemplate;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-sidecar-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.skipIf(missing !== undefined)("the documented sidecar", () => {
  let kubernetes: Kubernetes;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE, labels } });
    await kubernetes.call("POST", `/api/v1/namespaces/${NAMESPACE}/serviceaccounts`, {
      metadata: { name: "default" },
    });
    await writeFile(
      join(folder, "config"),
      kubeconfigText(kubernetes, { token: kubernetes.adminToken, namespace: NAMESPACE }),
    );
    await writeFile(join(folder, "sidecar.yaml"), manifest);
    await writeFile(join(folder, "bank.json"), "{}");
    await writeFile(join(folder, "verify.key"), "dpzv_");
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());

  const shell = (line: string) =>
    run("bash", ["-ec", line], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder, KUBECONFIG: join(folder, "config") },
    });
  const pod = (each: object) =>
    kubernetes.call("POST", `/api/v1/namespaces/${NAMESPACE}/pods?dryRun=All&fieldValidation=Strict`, each);

  test("passes the checks of the API server, with the objects that its commands create", async () => {
    await shell(commands);
    const { stdout } = await shell("kubectl apply --dry-run=server -f sidecar.yaml");
    expect(stdout).toMatch(/deployment.apps\/bank-mcp created.*\nservice\/bank-mcp created/);
    for (const [kind, names] of [
      ["configmaps", template.spec.volumes.map(({ configMap }) => Object(configMap).name)],
      ["secrets", template.spec.volumes.map(({ secret }) => Object(secret).secretName)],
    ] as const) {
      for (const name of names.filter((each) => each !== undefined)) {
        const path = `/api/v1/namespaces/${NAMESPACE}/${kind}/${name}`;
        expect((await kubernetes.call("GET", path)).status).toBe(200);
      }
    }
  });

  test("runs in a namespace that is restricted, and leads the Service to the proxy", async () => {
    const { metadata, spec } = template;
    const named = { ...metadata, name: "bank-mcp" };
    expect((await pod({ metadata: named, spec })).status).toBe(201);
    const bare = spec.containers.map((each) => ({ ...each, securityContext: {} }));
    expect((await pod({ metadata: named, spec: { ...spec, containers: bare } })).status).toBe(403);
    expect(metadata).toMatchObject({ labels: service.spec.selector });
    const [{ targetPort }] = service.spec.ports;
    expect(spec.containers).toMatchObject([
      { name: "server" },
      {
        name: "deputize",
        ports: [{ name: targetPort, containerPort: 3000 }],
        readinessProbe: { tcpSocket: { port: targetPort } },
        securityContext: { readOnlyRootFilesystem: true },
      },
    ]);
  });
});

test("the proxy of the documented sidecar runs with its arguments, and passes only allowed calls", async () => {
  const app = await world.application();
  const wishes = [{ role: "agent", agent_id: app.agentId }, { role: "verify" }];
  const made = await Promise.all(wishes.map((wish) => createKey(world.api, app.platform, wish)));
  const [agentKey, verifyKey] = made.map(({ body }) => String(body.api_key));
  const upstream = await HTTP_SERVERS["SDK 1.x"](() => undefined, []);
  const port = await freePort();
  const { args, env, volumeMounts } = template.spec.containers.find(
    ({ name }) => name === "deputize",
  ) as Container;
  /** The places of a Pod that a process on this machine has elsewhere. */
  const here = (text: string) =>
    [
      ...volumeMounts.map(({ mountPath }) => [mountPath, folder] as const),
      ["0.0.0.0:3000", `127.0.0.1:${port}`] as const,
      ["http://127.0.0.1:8080/mcp", upstream.url.href] as const,
      ["http://deputize-api.deputize-system:8080", world.api.url] as const,
    ].reduce((replaced, [from, to]) => replaced.replace(from, to), text);
  await writeFile(join(folder, "verify.key"), `${verifyKey}\n`);
  await rm(join(folder, "rules.json"), { force: true });
  const settings = Object.fromEntries(env.map(({ name, value }) => [name, here(value)]));
  const start = (...more: string[]) =>
    spawn(process.execPath, [MAIN, ...args.map(here), ...more], {
      env: { PATH: process.env.PATH, ...settings },
      stdio: ["ignore", "inherit", "pipe"],
    });
  const children: ChildProcess[] = [];
  try {
    const accepting = start("--accept");
    children.push(accepting);
    accepting.stderr?.resume();
    expect(await once(accepting, "close")).toEqual([0, null]);
    const file = join(folder, "rules.json");
    const rules = JSON.parse(await readFile(file, "utf8"));
    await writeFile(file, JSON.stringify({ ...rules, mode: "enforce" }));

    const proxy = start();
    children.push(proxy);
    for await (const line of createInterface({ input: proxy.stderr as never })) {
      if (line.includes('"listening"')) break;
    }
    const client = new Client({ name: "host", version: "1" });
    const requestInit = { headers: { authorization: `Bearer ${agentKey}` } };
    const url = new URL(`http://127.0.0.1:${port}/mcp`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    const paid = await client.callTool({ name: "send_payment", arguments: PAYMENT });
    expect(paid).toMatchObject({ content: [{ text: "did send_payment" }] });
    const hidden = await client.callTool({ name: "hidden", arguments: PAYMENT });
    expect(hidden).toMatchObject({ isError: true, _meta: { [AUTHORITY]: { code: "tool_without_rule" } } });
    await client.close();
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await upstream.stop();
  }
});
