import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ClusterAccess } from "../../../src/kubernetes/access.ts";
import type { Key, Platform } from "../../../src/operator/kinds.ts";
import type { Resources } from "../../../src/operator/resources.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import {
  type FaultyGateway,
  type GatewayFault,
  startFaultyGateway,
} from "../../support/kubernetes/faulty_gateway.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { startTcpProxy } from "../../support/surroundings/tcp_proxy.ts";
import type { ResourcesHarness } from "../describe_resources.ts";
import { adminAccess, clusterHarness } from "./cluster_harness.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const TIMES = { deadlineMs: 3000, idleMs: 1500, relistMs: 3000 };
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const key = (name: string): Key => ({ kind: "Platform", namespace: "default", name });
const platform = (name: string, displayName = "Shop") => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name, namespace: "default" },
  spec: { displayName, surfaceType: "agentic_api", defaultAllowedScopes: ["data:read"] },
});
const isWatch = (url: URL) => url.searchParams.has("watch") && url.pathname.endsWith("/platforms");
const isList = (url: URL) => !url.searchParams.has("watch") && url.pathname.endsWith("/platforms");

describe.skipIf(binary.missing !== undefined)("an operator in a failing cluster", () => {
  let kubernetes: Kubernetes;
  let gateway: FaultyGateway;
  let harness: ResourcesHarness;
  let resources: Resources;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);

  afterAll(() => kubernetes?.stop());

  beforeEach(async () => {
    gateway = await startFaultyGateway(kubernetes);
    const access: ClusterAccess = {
      server: gateway.url,
      namespace: undefined,
      credentials: async () => ({ headers: {}, tls: { ca: gateway.ca } }),
      forget: () => undefined,
    };
    harness = await clusterHarness(kubernetes, access, TIMES);
    resources = harness.resources;
    await harness.apply(platform("kept"));
    await harness.apply(platform("removed"));
    await resources.start();
  });

  afterEach(async () => {
    gateway.setRule();
    await harness.close();
    await gateway.stop();
  });

  const get = (name: string): Platform | undefined => resources.get("Platform", "default", name);
  const nameOf = (name: string) => get(name)?.spec.displayName;

  /** Sets the gateway's rule, and makes all watches reconnect. */
  function underRule(rule?: (url: URL) => GatewayFault | undefined): void {
    gateway.setRule(rule && ((_, url) => rule(url)));
    gateway.breakAll();
  }

  async function change(): Promise<void> {
    await harness.apply(platform("added"));
    await harness.apply(platform("kept", "Changed"));
    await harness.remove(key("removed"));
  }

  const isUpToDate = () =>
    get("added") !== undefined && nameOf("kept") === "Changed" && get("removed") === undefined;
  const upToDate = () => until("the copy is up to date", isUpToDate, 15_000);

  test("misses nothing when every connection breaks", async () => {
    gateway.breakAll();
    await change();
    gateway.breakAll();
    await upToDate();
  });

  test("misses nothing while the cluster answers every call with 500", async () => {
    underRule(() => ({ status: 500 }));
    await change();
    await sleep(1000);
    expect(isUpToDate()).toBe(false);
    underRule();
    await upToDate();
  });

  test("finds deletions by listing again after a 410 status", async () => {
    let lists = 0;
    underRule((url) => {
      if (isList(url)) lists += 1;
      return isWatch(url) && lists === 0 ? { status: 410, body: { reason: "Expired" } } : undefined;
    });
    await change();
    await upToDate();
  });

  test("finds deletions by listing again after a 410 event", async () => {
    const event = JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } });
    let lists = 0;
    underRule((url) => {
      if (isList(url)) lists += 1;
      return isWatch(url) ? { line: (text) => (lists === 0 ? event : text) } : undefined;
    });
    await change();
    await upToDate();
  });

  test("keeps all objects when a list is cut off in the middle", async () => {
    let breaks = 0;
    underRule((url) => {
      if (isWatch(url)) return breaks < 2 ? { status: 410 } : undefined;
      return isList(url) && breaks++ < 2 ? { breakAfter: 700 } : undefined;
    });
    await until("lists broke", () => breaks >= 2 || get("kept") === undefined, 15_000);
    expect(nameOf("kept")).toBe("Shop");
    await change();
    await upToDate();
  });

  test("remains available during a slow or delayed list, and lists again", async () => {
    const faults: GatewayFault[] = [{ delayMs: 3500 }, { status: 429, headers: { "retry-after": "1" } }];
    let lists = 0;
    underRule((url) => {
      if (isWatch(url)) return lists <= faults.length ? { status: 410 } : undefined;
      return isList(url) ? faults[lists++] : undefined;
    });
    await change();
    await until("the list is under way", () => lists === 1);
    expect(nameOf("kept")).toBe("Shop");
    await upToDate();
    expect(lists).toBeGreaterThanOrEqual(3);
  });

  test("receives the remaining events after a watch is cut off within a line", async () => {
    let breaks = 0;
    underRule((url) => (isWatch(url) && breaks++ < 3 ? { breakAfter: 300 } : undefined));
    await change();
    await upToDate();
    expect(breaks).toBeGreaterThan(1);
  });

  test("detects a silent watch", async () => {
    underRule((url) => (isWatch(url) ? { line: () => undefined } : undefined));
    await sleep(500);
    await change();
    gateway.setRule();
    await upToDate();
  });

  test("finds events that a watch omitted", async () => {
    const drop = (text: string) => (text.includes('"BOOKMARK"') ? text : undefined);
    underRule((url) => (isWatch(url) ? { line: drop } : undefined));
    await sleep(500);
    await change();
    await upToDate();
  });

  test("writes again once the cluster stops throttling", async () => {
    let throttled = 0;
    gateway.setRule((method) =>
      method === "PATCH" && throttled++ < 2 ? { status: 429, headers: { "retry-after": "1" } } : undefined,
    );
    await resources.writeStatus(get("kept") as Platform, { observedGeneration: 1 });
    expect(throttled).toBe(3);
    expect(get("kept")?.status).toEqual({ observedGeneration: 1 });
  });

  test("gives up a write that gets no answer, and continues", async () => {
    gateway.setRule((method) => (method === "PATCH" ? "silence" : undefined));
    const write = resources.writeStatus(get("kept") as Platform, { observedGeneration: 1 });
    await expect(write).rejects.toMatchObject({
      verb: "patch",
      resource: "platforms/status",
      reason: "Timeout",
    });
    gateway.setRule((method) => (method === "PATCH" ? "reset" : undefined));
    await expect(resources.setFinalizer(get("kept") as Platform, true)).rejects.toThrow(/^patch platforms: /);
    gateway.setRule();
    await resources.writeStatus(get("kept") as Platform, { observedGeneration: 1 });
  });

  test("sends calls and watches through the kubeconfig's proxy", async () => {
    const tunnels: string[] = [];
    const proxy = createServer().on("connect", ({ url = "" }, socket: Socket) => {
      tunnels.push(url);
      const { hostname, port } = new URL(`https://${url}`);
      const upstream = connect(Number(port), hostname, () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
        upstream.pipe(socket).pipe(upstream);
      });
      for (const end of [upstream, socket]) end.on("error", () => upstream.destroy());
    });
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    const proxyUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    await harness.close();
    harness = await clusterHarness(kubernetes, { ...adminAccess(kubernetes), proxyUrl }, TIMES);
    resources = harness.resources;
    await harness.apply(platform("kept"));
    await harness.apply(platform("removed"));
    await resources.start();
    await change();
    await upToDate();
    await resources.writeStatus(get("kept") as Platform, { observedGeneration: 1 });
    expect(new Set(tunnels)).toEqual(new Set([new URL(kubernetes.url).host]));
    await harness.close();
    proxy.close();
  });

  test("misses nothing after TLS connections lost all packets, or were cut", async () => {
    const proxy = await startTcpProxy(kubernetes.url);
    await harness.close();
    harness = await clusterHarness(
      kubernetes,
      { ...adminAccess(kubernetes), server: proxy.url.replace(/\/$/, "") },
      TIMES,
    );
    resources = harness.resources;
    await harness.apply(platform("kept"));
    await harness.apply(platform("removed"));
    await resources.start();
    proxy.stall();
    await change();
    await sleep(1000);
    expect(isUpToDate()).toBe(false);
    proxy.mend();
    await upToDate();
    proxy.cut();
    await harness.remove(key("added"));
    proxy.mend();
    await until("the deletion is noticed", () => get("added") === undefined, 15_000);
    await proxy.stop();
  });
});
