import { describe, expect, test } from "vitest";
import { fakeKubectl } from "./fake_kubectl.ts";

const KINDS = "get platforms.deputize.io,agents.deputize.io,delegations.deputize.io";
const WORKLOADS = "get deployments.apps,statefulsets.apps";
const forbidden = { fails: "Error from server (Forbidden): no" };
const missing = { fails: 'Error from server (NotFound): configmaps "deputize-cluster" not found' };
const me = { status: { userInfo: { username: "jane" } } };
const record = { kind: "ConfigMap", metadata: { name: "deputize-cluster" }, data: { clusterID: "prod-eu" } };
const fine = { name: "vault", status: "ok", detail: "ready", action: null };

const part = (name: string, readyReplicas = 1) => ({
  kind: name === "keyvault" ? "StatefulSet" : "Deployment",
  metadata: { name: `deputize-${name}`, labels: { "app.kubernetes.io/component": name } },
  status: { readyReplicas },
});
const release = (...others: object[]) => ({
  items: [part("api"), part("worker"), part("operator"), ...others],
});
const ready = (reason: string, message = "") => ({
  conditions: [{ type: "Ready", status: reason === "Active" ? "True" : "False", reason, message }],
});
const platform = (status?: object) => ({ kind: "Platform", metadata: { name: "shop" }, spec: {}, status });
const delegation = (username: string, status: object) => ({
  ...{ kind: "Delegation", metadata: { name: "bot" }, spec: {} },
  status: { approval: { decision: "Approved", approver: { username } }, ...status },
});

type Row = { name: string; status: string; detail: string };

describe("kubectl deputize check", () => {
  const kubectl = fakeKubectl();
  const healthy = {
    "auth whoami": me,
    "get configmap": record,
    [WORKLOADS]: release(part("keyvault")),
    "exec -n": { checks: [fine], failed: 0 },
    [KINDS]: {
      items: [platform(ready("Active")), delegation("jane", { ...ready("Active"), decidedBy: "jane" })],
    },
  };

  async function rows(answers: Record<string, unknown>) {
    const status = await kubectl.run(["check", "-o", "json"], { ...healthy, ...answers });
    const { checks, failed } = JSON.parse(kubectl.out) as { checks: Row[]; failed: number };
    const bad = checks.filter((row) => row.status !== "ok");
    return { status, failed, bad: bad.map((row) => `${row.name}: ${row.status}: ${row.detail}`) };
  }

  /** Only the service knows the links, and an owner can have ended this one. */
  const unknownLink =
    "your decisions: skipped: jane was linked when Delegation bot was decided. Not known here: whether jane is linked to an account now";

  test("passes if every part runs, and claims no link because of an earlier decision", async () => {
    expect(await rows({})).toEqual({ status: 0, failed: 0, bad: [unknownLink] });
    expect(kubectl.out).toContain("the service knows this cluster as prod-eu");
    const exec = (await kubectl.calls()).filter(([first]) => first === "exec");
    const commands = ["api", "operator", "worker"].map(
      (role) => `deputize doctor ${role} --json --egress none`,
    );
    expect(exec.map((call) => call.slice(call.indexOf("--") + 1).join(" ")).sort()).toEqual(commands);
  });

  test.each([
    [
      "a sealed vault",
      { [WORKLOADS]: release(part("keyvault", 0)) },
      "keyvault: failed: no pod is ready: the key vault is sealed or does not run",
    ],
    [
      "a missing worker",
      { [WORKLOADS]: { items: [part("api"), part("operator"), part("keyvault")] } },
      "worker: failed: deputize-system has no worker",
    ],
    [
      "an operator without pods",
      { [WORKLOADS]: { items: [part("api"), part("worker"), part("operator", 0), part("keyvault")] } },
      "operator: failed: no pod is ready",
    ],
    [
      "no recorded cluster id",
      { "get configmap": missing },
      "cluster id: failed: there is no configmap deputize-system/deputize-cluster",
    ],
    [
      "a namespace that nobody bound",
      { [KINDS]: { items: [platform(ready("NamespaceNotBound", "shop has no entry"))] } },
      "your namespace: failed: not bound to an account: shop has no entry",
    ],
    [
      "a namespace that the operator does not select",
      { [KINDS]: { items: [platform(ready("NamespaceNotSelected", "its labels differ"))] } },
      "your namespace: failed: not served by the operator: its labels differ",
    ],
    [
      "an object that no operator sees",
      { [KINDS]: { items: [platform()] } },
      "your namespace: failed: the operator has not seen Platform shop",
    ],
    [
      "a user who is not linked",
      {
        [KINDS]: {
          items: [platform(ready("Active")), delegation("jane", ready("ApproverNotLinked", "no link"))],
        },
      },
      "your decisions: failed: jane is not linked: no link",
    ],
  ])("fails for %s", async (_, answers, line) => {
    const { status, failed, bad } = await rows(answers);
    expect([status, failed]).toEqual([1, 1]);
    expect(bad).toContain(line);
  });

  test("shows the rows of the doctor, which ends with status 1 if a check failed", async () => {
    const sealed = { ...fine, status: "failed", detail: "https://vault is sealed" };
    const answer = { fails: "command terminated with exit code 1", out: { checks: [sealed], failed: 1 } };
    const { status, bad } = await rows({ "exec -n": answer });
    expect(status).toBe(1);
    const rowOf = (role: string) => `${role}: vault: failed: https://vault is sealed`;
    expect(bad).toEqual([...["api", "worker", "operator"].map(rowOf), unknownLink]);
  });

  test("claims nothing that a user without rights cannot see", async () => {
    const answers = { [WORKLOADS]: forbidden, "get configmap": forbidden, [KINDS]: { items: [] } };
    const { status, bad } = await rows(answers);
    expect(status).toBe(0);
    expect(bad.map((line) => line.split(": ").slice(0, 2).join(": "))).toEqual([
      "installation: skipped",
      "cluster id: skipped",
      "your namespace: skipped",
      "your decisions: skipped",
    ]);
  });

  test("prints each row with its advice, and how many failed", async () => {
    expect(await kubectl.run(["check"], { ...healthy, "get configmap": missing })).toBe(1);
    expect(kubectl.out).toContain("cluster id: FAILED\n  there is no configmap");
    expect(kubectl.out).toContain("  → The operator writes it when the API has accepted it");
    expect(kubectl.notes).toMatch(/^1 of \d+ checks failed\n$/);
  });

  test("uses either the namespace of the command line or the operator's in a call, and never both", async () => {
    await kubectl.run(["check", "-n", "shop"], healthy);
    const calls = await kubectl.calls();
    for (const call of calls) expect(call.includes("-n")).toBe(!call.includes("--namespace=shop"));
    expect(calls.some((call) => call.includes("--namespace=shop"))).toBe(true);
  });
});

describe("kubectl deputize link", () => {
  const kubectl = fakeKubectl();

  test.each([
    ["the record", record, [], 0, '"cluster": "prod-eu"'],
    ["the same id on the command line", record, ["--cluster-id", "prod-eu"], 0, '"cluster": "prod-eu"'],
    [
      "another id on the command line",
      record,
      ["--cluster-id", "prod-us"],
      1,
      "records the cluster id prod-eu",
    ],
    ["no record", missing, ["--cluster-id", "prod-eu"], 1, "the service knows no operator of this cluster"],
    ["no right to read it", forbidden, [], 1, "ask an administrator for the cluster id"],
    [
      "no right, and an id",
      forbidden,
      ["--cluster-id", "prod-eu"],
      0,
      "Nobody has checked that the operator",
    ],
  ])("knows the cluster id with %s", async (_, answer, args, status, text) => {
    const answers = { "auth whoami": me, "get configmap": answer };
    expect(await kubectl.run(["link", "-o", "json", ...args], answers)).toBe(status);
    expect(kubectl.out + kubectl.notes).toContain(text);
    if (status === 1) expect(kubectl.out).toBe("");
  });
});
