import { join } from "node:path";
import { afterAll, test as baseTest, beforeAll, describe, expect } from "vitest";
import type { AnyObject, DelegationStatus, PlatformStatus } from "../../src/operator/kinds.ts";
import { type RealCluster, startRealCluster } from "../operator/cluster/real_cluster.ts";
import { agent, delegation, platform } from "../operator/operator_folder.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { startKubernetes } from "../support/kubernetes/server.ts";
import { until } from "../support/process.ts";
import { pluginWorld, type Ran } from "./plugin_world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const PLUGIN = join(import.meta.dirname, "../../src/plugin");
const JANE = "jane@example.test";
const TOKENS = { jane: "jane-of-the-tests", ed: "ed-of-the-tests", ann: "ann-of-the-tests" };
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const statusOf = (object: AnyObject | undefined) => object?.status as DelegationStatus & PlatformStatus;

/** kubectl, API server, API and operators are real. A test vault creates the keys. */
describe.skipIf(binary.missing !== undefined).concurrent("kubectl deputize", { timeout: 120_000 }, () => {
  let real: RealCluster;

  beforeAll(async () => {
    const kubernetes = await startKubernetes(binary.path ?? "", {
      [TOKENS.jane]: { name: JANE },
      [TOKENS.ed]: { name: "ed@example.test" },
      [TOKENS.ann]: { name: "ann@example.test", group: "system:masters" },
    });
    real = await startRealCluster(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => real?.stop());

  /** Each test has its own operator, namespace and account, and one kubectl configuration per user. */
  const test = baseTest.extend("shop", async ({ onTestFinished }) => {
    const { world, person, cluster } = await real.open();
    onTestFinished(world.dispose);
    const plugin = await pluginWorld(real.kubernetes, {
      binary: binary.path ?? "",
      programs: {
        "kubectl-deputize": `${process.execPath} ${join(PLUGIN, "main.ts")}`,
        "kubectl_complete-deputize": `${process.execPath} ${join(PLUGIN, "complete_main.ts")}`,
      },
      people: TOKENS,
      namespace: world.namespace,
    });
    onTestFinished(plugin.dispose);
    const binding = `/v1/service/namespace-bindings/${cluster}/${world.namespace}`;
    await person.client.call("PUT", binding, { body: {} });
    await world.start();

    const as = (who: keyof typeof TOKENS, ...args: string[]): Promise<Ran> =>
      plugin.kubectl(who, ["deputize", ...args]);
    const call = async (...args: Parameters<RealCluster["kubernetes"]["call"]>) => {
      const { status, body } = await real.kubernetes.call(...args);
      if (status >= 300) throw new Error(`${args[1]}: ${status} ${String(body.message)}`);
      return body;
    };
    const link = () => person.client.post("/v1/service/cluster-approvers", { cluster, username: JANE });

    /** Grants a user read access to Deputize's objects, and these further rules. */
    async function allow(who: string, name: string, rules: object[]): Promise<void> {
      const reads = { apiGroups: ["deputize.io"], resources: ["*"], verbs: ["get", "list", "watch"] };
      const metadata = { name };
      await call("POST", `${RBAC}/namespaces/${world.namespace}/roles`, {
        metadata,
        rules: [reads, ...rules],
      });
      await call("POST", `${RBAC}/namespaces/${world.namespace}/rolebindings`, {
        metadata,
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
        subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: who }],
      });
    }
    const approvers = () =>
      allow(JANE, "approver", [
        { apiGroups: ["deputize.io"], resources: ["delegations/status"], verbs: ["get", "update", "patch"] },
        { apiGroups: ["deputize.io"], resources: ["platforms"], verbs: ["approve"], resourceNames: ["shop"] },
      ]);
    const editors = () =>
      allow("ed@example.test", "editor", [
        {
          apiGroups: ["deputize.io"],
          resources: ["delegations", "platforms"],
          verbs: ["create", "patch", "delete"],
        },
      ]);

    async function declare(spec: object = {}): Promise<void> {
      await world.apply(platform(), agent(), delegation(spec));
      await world.reaches("Delegation", "bot", "AwaitingApproval");
    }
    return { world, person, cluster, plugin, as, call, link, allow, approvers, editors, declare };
  });

  test("approves some of the requested scopes and waits for the result", async ({
    shop: { world, as, link, approvers, declare },
  }) => {
    await approvers();
    await link();
    await declare();
    const nobody = await as("jane", "approve", "bot");
    expect(nobody).toMatchObject({ status: 1, out: "" });
    expect(nobody.err).toContain("There is no terminal for a confirmation: add --yes");
    expect(nobody.err).toMatch(/Requested +data:read, payments:send/);
    const dry = await as("jane", "approve", "bot", "--dry-run");
    expect(dry).toMatchObject({ status: 0, out: "delegation/bot would be approved (dry run)\n" });
    expect(statusOf(await world.find("Delegation", "bot")).approval).toBeUndefined();
    const other = await as("jane", "approve", "bot", "--scopes", "data:share", "--yes");
    expect(other).toMatchObject({
      status: 2,
      err: expect.stringContaining("Scopes not requested: data:share"),
    });
    const done = await as("jane", "approve", "bot", "--scopes", "data:read", "-m", "for March", "--yes");
    expect(done).toMatchObject({ status: 0, err: "" });
    expect(done.out).toMatch(/^delegation\/bot is Active: bot may data:read until /);
    expect(statusOf(await world.find("Delegation", "bot"))).toMatchObject({
      approvedScope: ["data:read"],
      decidedBy: JANE,
      approval: { message: "for March", approver: { username: JANE } },
    });
    const again = await as("jane", "deny", "bot", "--yes");
    expect(again).toMatchObject({
      status: 1,
      err: `The delegation was already approved by ${JANE}; a decision cannot be changed\n`,
    });
    const shown = await as("jane", "status", "bot");
    expect(shown.out).toMatch(/State +Active\nGranted +data:read\n/);
    expect(shown.out).toContain(`Approved       data:read by ${JANE}: for March`);
  });

  test("denies a delegation, with a reason", async ({ shop: { as, link, approvers, declare } }) => {
    await approvers();
    await link();
    await declare();
    const done = await as("jane", "deny", "bot", "-m", "not this month", "--yes");
    expect(done).toMatchObject({
      status: 0,
      out: `delegation/bot is Denied: Denied by ${JANE}: not this month\n`,
    });
  });

  test("explains why a decision does not count, and what the cluster refused", async ({
    shop: { world, as, approvers, editors, declare },
  }) => {
    await approvers();
    await declare();
    const unlinked = await as("jane", "approve", "bot", "--yes");
    expect(unlinked.status).toBe(1);
    expect(unlinked.out).toContain("delegation/bot is ApproverNotLinked");
    expect(unlinked.err).toContain("kubectl deputize link shows what an owner has to confirm");
    await editors();
    await world.apply(delegation({}, { name: "second" }));
    const refused = await as("ed", "approve", "second", "--yes");
    expect(refused).toMatchObject({ status: 1, out: "" });
    expect(refused.err).toMatch(/ed@example\.test/);
    const missing = await as("jane", "approve", "nothing", "--yes");
    expect(missing).toMatchObject({ status: 1, err: "There is no delegation nothing in the namespace\n" });
  });

  test("shows the user's name, and the call by which the account's owner links the user", async ({
    shop: { world, person, cluster, as },
  }) => {
    const at = ["--operator-namespace", world.systemNamespace];
    const { out, status } = await as("jane", "link", "--cluster-id", cluster, "-o", "json", ...at);
    expect({ status, body: JSON.parse(out) }).toEqual({
      status: 0,
      body: { cluster, username: JANE },
    });
    await until(
      "the operator has recorded its id",
      async () => (await as("ann", "link", ...at)).status === 0,
    );
    const text = await as("ann", "link", ...at);
    expect(text.out).toContain(`Cluster   ${cluster}\n`);
    const unknown = await as("ann", "link", "--cluster-id", "other", ...at);
    expect(unknown).toMatchObject({ status: 1, out: "" });
    expect(unknown.err).toContain(`The operator records the cluster id ${cluster}`);
    expect(await as("ann", "link")).toMatchObject({ status: 1, out: "" });
    expect((await as("jane", "link", ...at)).err).toContain("ask an administrator for the cluster id");
    expect(text.out).toContain("POST /v1/service/cluster-approvers");
    const link = await person.client.post("/v1/service/cluster-approvers", JSON.parse(out));
    expect(link.status).toBe(201);
  });

  test("shows which users RBAC allows to approve, and which rights other users lack", async ({
    shop: { as, allow, approvers, declare },
  }) => {
    await approvers();
    await declare();
    await allow("half@example.test", "half", [{ apiGroups: ["*"], resources: ["platforms"], verbs: ["*"] }]);
    const { out } = await as("ann", "who-can-approve", "bot", "-o", "json");
    const found = (JSON.parse(out) as { subject: { name: string }; note: string }[]).map(
      ({ subject, note }) => [subject.name, note],
    );
    expect(found).toContainEqual([JANE, ""]);
    expect(found).toContainEqual(["system:masters", ""]);
    expect(found).toContainEqual(["half@example.test", "cannot write the status"]);
    const platformOnly = await as("ann", "who-can-approve", "platform/shop");
    expect(platformOnly.out).toMatch(/^WHO +CAN +/);
    expect(platformOnly.out).toMatch(/User jane@example\.test +yes/);
    expect((await as("jane", "who-can-approve", "bot")).err).toContain("Forbidden");
  });

  test("revokes a delegation, waits for the result, and renews the request for the current user", async ({
    shop: { world, as, editors, declare },
  }) => {
    await editors();
    await declare({ requestedBy: undefined });
    const done = await as("ed", "revoke", "bot", "--reason", "over", "--yes");
    expect(done.out).toMatch(/^delegation\/bot is Revoked: /);
    expect((await world.find("Delegation", "bot"))?.spec).toMatchObject({
      revoked: true,
      revokeReason: "over",
    });
    const dry = await as("ed", "renew", "bot", "--dry-run");
    expect(dry).toMatchObject({ status: 0, out: "delegation/bot-2 would be created (dry run)\n" });
    const renewed = await as("ed", "renew", "bot", "--ttl", "1h");
    expect(renewed.out).toBe(
      "delegation/bot-2 created; it needs a decision: kubectl deputize approve bot-2\n",
    );
    const next = await world.reaches("Delegation", "bot-2", "AwaitingApproval");
    expect(next.spec).toEqual({
      platformRef: { name: "shop" },
      agentRef: { name: "bot" },
      scopes: ["data:read", "payments:send"],
      ttl: "1h",
    });
  });

  test("replaces a platform's key, and prints the name of the Secret", async ({
    shop: { world, as, editors, declare },
  }) => {
    await editors();
    await declare();
    const before = await world.secret("shop-credentials");
    const done = await as("ed", "rotate-key", "shop", "--yes");
    expect(done).toMatchObject({
      status: 0,
      out: "platform/shop has key number 2 in secret/shop-credentials; the old key ends immediately\n",
    });
    expect((await world.secret("shop-credentials"))?.api_key).not.toBe(before?.api_key);
  });

  test("lists all objects, and shows one object in detail", async ({
    shop: { world, as, editors, declare },
  }) => {
    await editors();
    await declare();
    const { out } = await as("ed", "status");
    expect(out.split("\n").map((line) => line.split(/ {2,}/).slice(0, 3))).toEqual([
      ["NAME", "READY", "REASON"],
      ["platform/shop", "True", "Active"],
      ["agent/bot", "True", "Active"],
      ["delegation/bot", "False", "AwaitingApproval"],
      [""],
    ]);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    const one = await as("ed", "status", "platform/shop");
    expect(one.out).toMatch(/^Platform +shop-\w+\/shop\nState +Active\n/);
    const everywhere = await as("ann", "status", "-A");
    expect(everywhere.out).toContain(world.namespace);
    expect(JSON.parse((await as("ed", "status", "bot", "-o", "json")).out).metadata.name).toBe("bot");
  });

  test("lists orphans, and lets an administrator confirm their revocation", async ({
    shop: { world, as, call },
  }) => {
    const record = {
      checkedAt: new Date().toISOString(),
      epoch: 7,
      state: "held",
      why: "The cluster contains no Deputize object",
      items: [
        {
          externalID: "real.1",
          kind: "Delegation",
          namespace: "shop",
          name: "old",
          status: "approved",
          since: new Date().toISOString(),
        },
      ],
    };
    const configMaps = `/api/v1/namespaces/${world.systemNamespace}/configmaps`;
    const args = ["status", "--orphans", "--operator-namespace", world.systemNamespace];
    const nothing = await as("ann", ...args);
    expect(nothing).toMatchObject({ status: 1, err: expect.stringContaining("recorded nothing yet") });
    await call("POST", configMaps, {
      metadata: { name: "deputize-orphans" },
      data: { "orphans.json": JSON.stringify(record) },
    });
    const held = await as("ann", ...args);
    expect(held.out).toMatch(/shop\/old +approved +\S+ ago +held/);
    expect(held.out).toContain("The cluster contains no Deputize object");
    expect(await as("ann", ...args, "--confirm", "--yes")).toMatchObject({ status: 0 });
    const { metadata } = await call("GET", `${configMaps}/deputize-orphans`);
    expect(metadata).toMatchObject({ annotations: { "deputize.io/confirmed": "7" } });
  });

  test("completes commands, options and names", async ({ shop: { plugin, editors, declare } }) => {
    await editors();
    await declare();
    const complete = async (...words: string[]) =>
      (await plugin.kubectl("ed", ["__complete", "deputize", ...words])).out.split("\n");
    expect(await complete("re")).toEqual(["revoke", "renew", ":4", ""]);
    expect(await complete("revoke", "")).toEqual(["bot", ":4", ""]);
    expect(await complete("rotate-key", "s")).toEqual(["shop", ":4", ""]);
    expect(await complete("approve", "--sc")).toEqual(["--scopes", ":4", ""]);
    expect(await complete("status", "platform/")).toEqual(["platform/shop", ":4", ""]);
  });
});
