import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { test as base, describe, expect, vi } from "vitest";
import { conditionOf } from "../../../src/operator/reconcile/conditions.ts";
import { type FakeKubernetes, startFakeKubernetes } from "../../support/kubernetes/fake_server.ts";
import { kubeconfigText } from "../../support/kubernetes/kubeconfig.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, OWNER, only, platform, TOKEN } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const KINDS = "/apis/deputize.io/v1alpha1";
const MERGE_PATCH = "application/merge-patch+json";
const labels = (team: string) => ({ metadata: { labels: { team } } });
const SWEEPS = { firstMs: 50, everyMs: 50, endedEveryMs: 50 };

type Options = NonNullable<Parameters<typeof operatorCluster>[1]>;
type Event = { reason: string; message: string; involvedObject: { kind: string; name: string } };

const test = base.extend<{ kubernetes: FakeKubernetes; open(options?: Options): Promise<OperatorCluster> }>({
  // biome-ignore lint/correctness/noEmptyPattern: Vitest requires a pattern here.
  kubernetes: async ({}, use) => {
    const kubernetes = await startFakeKubernetes();
    await use(kubernetes);
    await kubernetes.stop();
  },
  open: async ({ kubernetes }, use) => {
    const worlds: OperatorCluster[] = [];
    await use(async (options) => {
      const world = await operatorCluster(kubernetes, options);
      worlds.push(world);
      return world;
    });
    await Promise.all(worlds.map((world) => world.dispose()));
  },
});

async function line(world: OperatorCluster, start: string): Promise<string | undefined> {
  const lines = (await world.metrics()).split("\n");
  return lines
    .find((each) => each.startsWith(start))
    ?.split(" ")
    .at(-1);
}

async function eventsOf(kubernetes: FakeKubernetes, namespace: string): Promise<Event[]> {
  const { body } = await kubernetes.call("GET", `/api/v1/namespaces/${namespace}/events`);
  return body.items as Event[];
}

describe.concurrent("an operator in a cluster with a fake API server", () => {
  test("calls the API, links to the console and names the applications' URL as its settings say", async ({
    kubernetes,
    open,
  }) => {
    const settings = { API_URL: "https://public.example.test/", OPERATOR_TOKEN: TOKEN };
    const world = await open({ settings });
    const operator = await world.start();
    await world.apply(platform(), agent(), delegation());
    const { status } = await world.reaches("Delegation", "bot", "AwaitingApproval");
    const message = status.conditions?.find(({ type }) => type === "Ready")?.message;
    expect(message).toContain("https://console.example.test/requests/");
    expect((await world.secret("shop-credentials"))?.base_url).toBe("https://public.example.test");
    const { body } = await kubernetes.call("GET", "/api/v1/namespaces/kube-system");
    const { uid } = body.metadata as { uid: string };
    expect(operator.clusterId()).toBe(uid);
    expect([...world.api.platforms.keys()][0]).toMatch(new RegExp(`^${uid}\\.`));
    expect(await operator.isReady()).toBe(true);
  });

  test("works in the context, namespace and cluster that its settings name", async ({ kubernetes, open }) => {
    const world = await open({ settings: { KUBE_CONTEXT: "good", CLUSTER_ID: "prod-eu" } });
    const good = JSON.parse(kubeconfigText(kubernetes, { token: kubernetes.adminToken, namespace: "team" }));
    good.contexts[0].name = "good";
    good.contexts.push({ name: "bad", context: { cluster: "none", user: "test" } });
    good["current-context"] = "bad";
    await writeFile(world.config.KUBECONFIG ?? "", JSON.stringify(good));
    const operator = await world.start();
    await until("it leads", () => operator.isLeading());
    expect(operator.clusterId()).toBe("prod-eu");
    expect(await world.holder()).toMatch(/./);
    await operator.stop();
    delete world.config.OPERATOR_NAMESPACE;
    const next = await world.start();
    await until("it leads", () => next.isLeading());
    const lease = "/apis/coordination.k8s.io/v1/namespaces/team/leases/deputize-operator";
    expect((await kubernetes.call("GET", lease)).status).toBe(200);
  });

  test("becomes ready while another process leads", async ({ open }) => {
    const world = await open();
    const leader = await world.start();
    await until("it leads", () => leader.isLeading());
    const standby = await world.start();
    await until("it is ready", () => standby.isReady());
    expect([leader.isLeading(), standby.isLeading()]).toEqual([true, false]);
  });

  test("refuses to start without the name of its namespace", async ({ open }) => {
    const world = await open();
    delete world.config.OPERATOR_NAMESPACE;
    await expect(world.start()).rejects.toThrow("OPERATOR_NAMESPACE");
  });

  test("reads its token from the file that its settings name", async ({ open }) => {
    const world = await open({ settings: { OPERATOR_TOKEN: "x".repeat(32) } });
    world.config.OPERATOR_TOKEN_FILE = `${world.config.KUBECONFIG}-token`;
    await writeFile(world.config.OPERATOR_TOKEN_FILE, TOKEN);
    await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
  });

  test("asks the cluster only about the watched namespaces", async ({ kubernetes, open }) => {
    const world = await open({ settings: { WATCH_NAMESPACES: ["bank", "other"] } });
    world.config.WATCH_NAMESPACES = [world.namespace, "other"];
    await kubernetes.call("POST", `${KINDS}/namespaces/bank/platforms`, platform());
    const operator = await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    expect(operator.resources.list("Platform")).toHaveLength(1);
    const lists = kubernetes.requests.filter(({ path }) => /\/(platforms|secrets)\?/.test(path));
    expect(lists.every(({ path }) => new RegExp(`/namespaces/(other|${world.namespace})/`).test(path))).toBe(
      true,
    );
  });

  describe("with a selector of namespaces", () => {
    test("does nothing in another namespace except to say so, and starts when the labels match", async ({
      kubernetes,
      open,
    }) => {
      const world = await open({ settings: { NAMESPACE_SELECTOR: "team=shop" } });
      await world.start();
      await world.apply(platform());
      const { metadata, status } = await world.reaches("Platform", "shop", "NamespaceNotSelected");
      expect(conditionOf(status, "Ready")).toMatchObject({ status: "False" });
      expect(conditionOf(status, "Stalled")).toMatchObject({ status: "True" });
      expect(metadata.finalizers ?? []).toEqual([]);
      expect(world.api.platforms.size).toBe(0);
      await kubernetes.call("PATCH", `/api/v1/namespaces/${world.namespace}`, labels("shop"), MERGE_PATCH);
      await world.reaches("Platform", "shop", "Active");
    });

    test("keeps existing authority when the labels stop matching, and ends it with its object", async ({
      kubernetes,
      open,
    }) => {
      const world = await open({
        settings: { NAMESPACE_SELECTOR: "team=shop", ENDED_TTL: "1s" },
        sweepTimes: SWEEPS,
      });
      const label = (team: string) =>
        kubernetes.call("PATCH", `/api/v1/namespaces/${world.namespace}`, labels(team), MERGE_PATCH);
      await label("shop");
      await world.start();
      await world.apply(platform(), agent(), delegation());
      await world.reaches("Delegation", "bot", "AwaitingApproval");
      world.api.approve(only(world.api.delegations).request_id, ["data:read"]);
      await world.reaches("Delegation", "bot", "Active");
      await label("other");
      for (const kind of ["Platform", "Agent", "Delegation"] as const) {
        await world.reaches(kind, kind === "Platform" ? "shop" : "bot", "NamespaceNotSelected");
      }
      await world.apply(platform({ callbackUrl: "https://shop.example.com/hook" }));
      await until("the operator has seen the change", async () => {
        const found = await world.find("Platform", "shop");
        return found?.status.observedGeneration === found?.metadata.generation;
      });
      expect(only(world.api.platforms).callback_url).toBeNull();
      expect(only(world.api.delegations).status).toBe("approved");
      await world.remove("Delegation", "bot");
      await world.gone("Delegation", "bot");
      expect(only(world.api.delegations).status).toBe("revoked");
      await label("shop");
      await world.reaches("Platform", "shop", "Active");
      expect(only(world.api.platforms).callback_url).toBe("https://shop.example.com/hook");
    });

    test("calls the API for no object until it has read the namespaces", async ({ kubernetes, open }) => {
      const world = await open({ settings: { NAMESPACE_SELECTOR: "team=shop" } });
      await kubernetes.call("PATCH", `/api/v1/namespaces/${world.namespace}`, labels("shop"), MERGE_PATCH);
      kubernetes.setRule((_, path) => (path.startsWith("/api/v1/namespaces?") ? { status: 500 } : undefined));
      await world.apply(platform());
      const operator = await world.start();
      await sleep(500);
      expect(await operator.isReady()).toBe(false);
      expect(world.api.platforms.size).toBe(0);
      kubernetes.setRule();
      await world.reaches("Platform", "shop", "Active");
    });
  });

  test("deletes a Delegation when its retention time is over, not before", async ({ kubernetes, open }) => {
    const world = await open({ settings: { ENDED_TTL: "1h" }, sweepTimes: SWEEPS });
    await world.start();
    await world.apply(platform(), agent(), delegation(), delegation({}, { name: "next" }));
    for (const name of ["bot", "next"]) await world.reaches("Delegation", name, "AwaitingApproval");
    for (const { request_id } of world.api.delegations.values()) world.api.decide(request_id, "denied", "no");
    for (const name of ["bot", "next"]) await world.reaches("Delegation", name, "Denied");
    /** Dates the end of a Delegation back, and waits until the operator knows it. */
    async function endedAgo(name: string, ms: number): Promise<void> {
      const { conditions = [] } = (await world.find("Delegation", name))?.status ?? {};
      const lastTransitionTime = new Date(Date.now() - ms).toISOString();
      const dated = conditions.map((each) =>
        each.type === "Denied" ? { ...each, lastTransitionTime } : each,
      );
      const path = `${KINDS}/namespaces/${world.namespace}/delegations/${name}/status`;
      await kubernetes.call("PATCH", path, { status: { conditions: dated } }, MERGE_PATCH);
      await until("the operator knows it", () => {
        const object = world
          .operators()[0]
          ?.resources.list("Delegation")
          .find((one) => one.metadata.name === name);
        return (
          object === undefined ||
          object.status.conditions?.some((each) => each.lastTransitionTime === lastTransitionTime) === true
        );
      });
    }
    await endedAgo("bot", 3_500_000);
    await endedAgo("next", 3_700_000);
    await world.gone("Delegation", "next");
    expect(await world.find("Delegation", "bot")).toBeDefined();
    await endedAgo("bot", 3_700_000);
    await world.gone("Delegation", "bot");
  });

  test("deletes nothing until the API has reported the current time", async ({ open }) => {
    const world = await open({ sweepTimes: SWEEPS });
    await world.start();
    await world.apply(platform(), agent(), delegation());
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    world.api.decide(only(world.api.delegations).request_id, "denied", "no");
    await world.reaches("Delegation", "bot", "Denied");
    await world.operators()[0]?.stop();
    world.api.fail("POST /internal/v1/state", "unavailable");
    world.config.ENDED_TTL = "1s";
    await world.start();
    const asked = () => world.api.callsTo("POST", "/internal/v1/state").length;
    const before = asked();
    await until("it has asked for the time", () => asked() >= before + 2);
    await sleep(1_500);
    expect(await world.find("Delegation", "bot")).toBeDefined();
    world.api.heal();
    await world.gone("Delegation", "bot");
  });

  test.for(["1h", undefined])(
    "lists a delegation without an object, and revokes it only after a grace period: %s",
    async (grace, { kubernetes, open }) => {
      const settings = grace === undefined ? {} : { ORPHAN_GRACE: grace };
      const world = await open({ settings, sweepTimes: SWEEPS });
      await world.start();
      await world.apply(platform(), agent(), delegation(), delegation({}, { name: "next" }));
      await world.reaches("Delegation", "next", "AwaitingApproval");
      await world.reaches("Delegation", "bot", "AwaitingApproval");
      const path = `${KINDS}/namespaces/${world.namespace}/delegations/bot`;
      const bot = [...world.api.delegations.values()].find(({ desired }) => desired.object.name === "bot");
      if (bot === undefined) throw new Error("the delegation was not requested");
      world.api.approve(bot.request_id, ["data:read"]);
      await world.reaches("Delegation", "bot", "Active");
      await world.operators()[0]?.stop();
      const elsewhere = { ...bot.desired, object: { namespace: "bank", name: "bot" } };
      world.api.delegations.set("c1.bank", { ...bot, request_id: "req-bank", desired: elsewhere });
      world.config.WATCH_NAMESPACES = [world.namespace];
      await kubernetes.call("PATCH", path, { metadata: { finalizers: null } }, MERGE_PATCH);
      await world.remove("Delegation", "bot");
      await world.start();
      const configMap = `/api/v1/namespaces/${world.systemNamespace}/configmaps/deputize-orphans`;
      type Record = { checkedAt?: string; items?: { since: string; revokeAt?: string }[] };
      const recorded = async () => {
        const { body } = await kubernetes.call("GET", configMap);
        const data = (body.data ?? {}) as { "orphans.json"?: string };
        return JSON.parse(data["orphans.json"] ?? "{}") as Record;
      };
      const items = async () => (await recorded()).items ?? [];
      /** Dates back when the orphan was found, until a sweep has taken this from the record. */
      async function foundAgo(ms: number): Promise<void> {
        const since = new Date(Date.now() - ms).toISOString();
        await until("a sweep knows it", async () => {
          const record = await recorded();
          const dated = { ...record, items: record.items?.map((item) => ({ ...item, since })) };
          const data = { "orphans.json": JSON.stringify(dated) };
          await kubernetes.call("PATCH", configMap, { data }, MERGE_PATCH);
          await until("a sweep has ended", async () => (await recorded()).checkedAt !== record.checkedAt);
          return bot?.status === "revoked" || (await items())[0]?.since === since;
        });
      }
      await until("it is listed", async () => (await items()).length === 1);
      const { revokeAt } = (await items())[0] ?? {};
      if (grace === undefined) expect(revokeAt).toBeUndefined();
      else expect(Math.abs(Date.parse(revokeAt ?? "") - Date.now() - 3_600_000)).toBeLessThan(60_000);
      await until(
        "it is counted",
        async () => (await line(world, 'deputize_operator_orphans{state="ok"}')) === "1",
      );
      await foundAgo(grace === undefined ? 3_700_000 : 3_500_000);
      expect(bot.status).toBe("approved");
      if (grace === undefined) return;
      await foundAgo(3_700_000);
      await until("it is revoked", () => bot.status === "revoked");
    },
  );

  test("records who leads, and a lost leadership, as Events of the Lease, and leads again", async ({
    kubernetes,
    open,
  }) => {
    const world = await open();
    const operator = await world.start();
    await until("it leads", () => operator.isLeading());
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    world.api.leader.epoch += 1;
    await world.apply(agent());
    await world.reaches("Agent", "bot", "Active");
    await operator.stop();
    const events = await eventsOf(kubernetes, world.systemNamespace);
    expect(events.map(({ reason }) => reason)).toEqual(["Leading", "Superseded", "Leading"]);
    expect(events[0]).toMatchObject({
      message: expect.stringMatching(/^This operator leads \(.+\)$/),
      involvedObject: { kind: "Lease", name: "deputize-operator" },
    });
    expect(await line(world, 'deputize_operator_lead_losses_total{cause="superseded"}')).toBe("1");
    expect(await world.holder()).toBe("");
  });

  test("records the faults of a ConfigMap that binds namespaces, also when they change", async ({
    kubernetes,
    open,
  }) => {
    const world = await open();
    const tenants = `/api/v1/namespaces/${world.systemNamespace}/configmaps/deputize-tenants`;
    const bind = (data: object) => kubernetes.call("PATCH", tenants, { data }, MERGE_PATCH);
    const faults = async () =>
      (await eventsOf(kubernetes, world.systemNamespace)).filter(({ reason }) => reason === "FaultyBinding");
    await bind({ bank: "nobody" });
    await world.start();
    await until("the fault is recorded", async () => (await faults()).length === 1);
    await bind({ bank: `accountEmail: ${OWNER}`, other: "accountEmail: 5" });
    await until("the other fault is recorded", async () => (await faults()).length === 2);
    expect((await faults()).map(({ message }) => message.split(":")[0])).toEqual(["bank", "other"]);
  });

  test("asks for the cluster's id until the cluster answers", async ({ kubernetes, open }) => {
    let refusals = 1;
    kubernetes.setRule((_, path) => {
      if (!path.endsWith("/kube-system") || refusals === 0) return undefined;
      refusals -= 1;
      return { status: 403 };
    });
    const world = await open();
    const operator = await world.start();
    await until("it leads", () => operator.isLeading());
    expect(operator.clusterId()).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("counts lists, failures, silence and requests of each resource", async ({ kubernetes, open }) => {
    let failures = 1;
    kubernetes.setRule((_, path) => {
      if (!path.includes("/agents?") || failures === 0) return undefined;
      failures -= 1;
      return { status: 500 };
    });
    const world = await open();
    const operator = await world.start();
    const of = (metric: string, resource: string) =>
      line(world, `deputize_operator_${metric}{resource="${resource}"}`);
    await until("Platforms are read", async () => (await of("synced", "platforms")) === "1");
    await until("Agents are read", async () => (await of("synced", "agents")) === "1");
    await until("it leads", () => operator.isLeading());
    expect(await of("lists_total", "agents")).toBe("1");
    expect(await of("watch_failures_total", "agents")).toBe("1");
    expect(await of("watch_failures_total", "platforms")).toBe("0");
    expect(Number(await of("watch_silence_seconds", "secrets"))).toBeGreaterThan(0);
    const host = new URL(kubernetes.url).host;
    const requests = (code: string, method: string) =>
      line(world, `rest_client_requests_total{code="${code}",method="${method}",host="${host}"}`);
    expect(await requests("500", "GET")).toBe("1");
    expect(Number(await requests("200", "POST"))).toBeGreaterThan(0);
    expect(operator.isAlive()).toBe(true);
  });

  test("sends the last Events before it stops", async ({ kubernetes, open }) => {
    const held = Promise.withResolvers<void>();
    kubernetes.setRule((method, path) =>
      method === "POST" && path.endsWith("/events") ? held.promise : undefined,
    );
    const world = await open();
    const operator = await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    world.api.leader.epoch += 1;
    await world.apply(agent());
    await until("it is superseded", () => !operator.isLeading());
    const stopping = operator.stop();
    await until("it has released the Lease", async () => (await world.holder()) === "");
    held.resolve();
    await stopping;
    const events = await eventsOf(kubernetes, world.systemNamespace);
    expect(events.map(({ reason }) => reason)).toEqual(["Leading", "Superseded"]);
  });

  test("finishes the work in progress when it stops", async ({ open }) => {
    const world = await open();
    const operator = await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const resume = world.api.hold("PUT /internal/v1/agents");
    await world.apply(agent());
    await until("the call is made", () => world.api.callsTo("PUT", "/agents").length === 1);
    const stopping = operator.stop();
    resume();
    await stopping;
    const { status } = await world.reaches("Agent", "bot", "Active");
    expect(status).toHaveProperty("agentID");
  });
});

describe("an operator in a cluster whose watches hang", () => {
  test("reports that it is not alive while the cluster answers other calls", async ({ open }) => {
    const world = await open();
    const operator = await world.start();
    await until("it leads", () => operator.isLeading());
    const now = performance.now.bind(performance);
    const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + 11 * 60_000);
    try {
      expect(operator.isAlive()).toBe(true);
      await world.apply(platform());
      await until("a call is answered", () => !operator.isAlive());
    } finally {
      spy.mockRestore();
    }
  });
});
