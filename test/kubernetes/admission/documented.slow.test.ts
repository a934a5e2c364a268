import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { type AdmissionWorld, admissionWorld } from "./world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const JANE = "jane@example.test";
const run = promisify(execFile);
const binary = await kubernetesBinary();
const kubectl = await run("kubectl", ["version", "--client"]).then(
  () => undefined,
  () => "kubectl",
);
const missing = binary.missing ?? kubectl;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

function block(section: string, language: string): string {
  const text = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(section)?.[1];
  if (text === undefined) throw new Error(`the section has no block of ${language}`);
  return text;
}

describe.skipIf(missing !== undefined)("the documentation of approvals in Kubernetes", () => {
  let kubernetes: Kubernetes;
  let world: AdmissionWorld;
  let section: string;
  let folder: string;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "", { "token-of-jane": { name: JANE } });
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    world = await admissionWorld(kubernetes);
    const page = await readFile(join(import.meta.dirname, "../../../docs/operator.md"), "utf8");
    section = /^## Approving in Kubernetes$.*?(?=^## )/ms.exec(page)?.[0] ?? "";
    folder = await mkdtemp(join(tmpdir(), "deputize-kubectl-"));
    const { url, ca } = kubernetes;
    const cluster = { server: url, "certificate-authority-data": Buffer.from(ca).toString("base64") };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "test",
      clusters: [{ name: "test", cluster }],
      users: [{ name: "test", user: { token: "token-of-jane" } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    };
    await writeFile(join(folder, "config"), stringify(config));
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await kubernetes?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  const shell = (lines: string) =>
    run("bash", ["-ec", lines.replaceAll("-n shop", `-n ${world.namespace}`)], {
      env: { PATH: process.env.PATH, HOME: folder, KUBECONFIG: join(folder, "config") },
    });

  test("contains a role and commands that work, and the actual messages of refusals", async () => {
    await expect(shell(block(section, "sh"))).rejects.toMatchObject({
      stderr: expect.stringContaining("Forbidden"),
    });
    const { metadata, rules } = parse(block(section, "yaml")) as {
      metadata: { name: string };
      rules: object[];
    };
    const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${world.namespace}`;
    await kubernetes.call("POST", `${roles}/roles`, { metadata: { name: metadata.name }, rules });
    const apiGroup = "rbac.authorization.k8s.io";
    await kubernetes.call("POST", `${roles}/rolebindings`, {
      metadata: { name: metadata.name },
      roleRef: { apiGroup, kind: "Role", name: metadata.name },
      subjects: [{ apiGroup, kind: "User", name: JANE }],
    });
    expect((await shell("kubectl auth whoami")).stdout).toContain(JANE);

    const lines = block(section, "sh");
    await expect(shell(lines.replace(JANE, "bob@example.test"))).rejects.toMatchObject({
      stderr: expect.stringContaining(`approver.username must be your own user name, ${JANE}`),
    });
    const { stdout } = await shell(lines);
    expect(stdout).toContain("generation: 1");
    expect(stdout).toContain("help patched");
    expect((await world.get("delegations", "help")).status?.approval).toMatchObject({
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username: JANE },
    });
  });
});
