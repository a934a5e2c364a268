import { hash, randomBytes } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, startApi as startProductionApi } from "../../src/api.ts";
import { createSharedToken } from "../../src/clusters/identify_operator.ts";
import { claimLeadership, createIsLeader } from "../../src/clusters/leader_epochs.ts";
import { readApiConfig } from "../../src/config.ts";
import { createMetrics } from "../../src/metrics.ts";
import { leaderOf, OPERATOR_TOKEN, runningApi } from "../support/api.ts";
import { agreeing } from "../support/clock.ts";
import { createClient, type HttpClient } from "../support/http.ts";
import { errorCode } from "../support/platform_world.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { vaultFiles } from "../support/vault_files.ts";
import { declaredRoutes } from "./walk/documented.ts";

const UNKNOWN = "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846";
const api = runningApi();
const stolen = (epoch: number | string = 1, cluster = "c1") => ({
  authorization: `Bearer ${OPERATOR_TOKEN}`,
  "x-deputize-cluster": cluster,
  "x-deputize-epoch": String(epoch),
});
const callOf = ({ method, path }: { method: string; path: string }) => ({
  method,
  path: path.replaceAll(/\{\w+\*?\}/g, UNKNOWN),
});
const operators = declaredRoutes.filter(({ access }) => access === "operator").map(callOf);
const others = declaredRoutes.filter(({ access }) => access !== "operator").map(callOf);

describe("a stolen operator token", () => {
  test.each(operators)("gives no access at the public port: $method $path", async ({ method, path }) => {
    const answer = await api.client().call(method, path, { headers: stolen(), body: {} });
    expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    const there = await api.operatorClient().call(method, path, { body: {} });
    expect(errorCode(there)).toBe("operator_unauthorized");
  });

  test("gives access only to the operator's operations, at the operator's port", async () => {
    const own = new Set(operators.map(({ path }) => path));
    for (const { method, path } of others.filter((other) => !own.has(other.path))) {
      const body = method === "GET" ? undefined : {};
      const answer = await api.operatorClient().call(method, path, { headers: stolen(), body });
      expect([path, answer.status]).toEqual([path, 404]);
    }
    for (const path of ["/openapi.json", "/docs", "/dev/mailbox"]) {
      expect((await api.operatorClient().get(path)).status).toBe(404);
    }
  });

  test.each([1, 999_999_999_999_999])(
    "does not lock a cluster's operator out with epoch %d",
    async (epoch) => {
      const cluster = `locked-${epoch}`;
      const call = (at: number) =>
        api
          .operatorClient()
          .post("/internal/v1/state", { external_ids: [] }, { headers: stolen(at, cluster) });
      expect(errorCode(await call(epoch))).toBe("stale_epoch");
      const leader = await leaderOf(api, cluster);
      expect(errorCode(await call(epoch))).toBe("stale_epoch");
      expect((await call(leader)).status).toBe(200);
    },
  );

  test("loses a claimed leadership when the real operator claims it again", async () => {
    const claim = async () => {
      const answer = await api
        .operatorClient()
        .post("/internal/v1/leadership", { holder: "pod-1" }, { headers: stolen(0, "moved") });
      return Number(answer.body.epoch);
    };
    const call = (at: number) =>
      api.operatorClient().post("/internal/v1/state", { external_ids: [] }, { headers: stolen(at, "moved") });
    const [first, second] = [await claim(), await claim()];
    expect(errorCode(await call(first))).toBe("stale_epoch");
    expect((await call(second)).status).toBe(200);
    expect(second).toBeGreaterThan(first);
  });
});

test.each([
  ["begins", 0, 2],
  ["ends", 30, 32],
])("a token whose hash %s like the hash of the operator's token is refused", async (_, from, to) => {
  const partOf = (token: string) => hash("sha256", token, "buffer").subarray(from, to).toString("hex");
  const right = partOf(OPERATOR_TOKEN);
  let alike = 0;
  while (partOf(`guess-${alike}`) !== right) alike += 1;
  const isOperator = createSharedToken(OPERATOR_TOKEN);
  expect(isOperator(`guess-${alike}`)).toBe(false);
  expect(isOperator(OPERATOR_TOKEN)).toBe(true);
});

test("concurrent leaders each get their own epoch, and only the greatest epoch is valid", async () => {
  const cluster = { clusterId: "many" };
  const epochs = await Promise.all(Array.from({ length: 16 }, () => claimLeadership(api, cluster)));
  expect(new Set(epochs).size).toBe(16);
  const isLeader = createIsLeader(api);
  const leaders = await Promise.all(epochs.map((epoch) => isLeader(cluster, epoch)));
  expect(epochs.filter((_, n) => leaders[n])).toEqual([Math.max(...epochs)]);
});

test("a new leader receives the previous epoch, so that it can recognize a restored cluster", async () => {
  const claim = async () => {
    const headers = stolen(0, "told");
    const answer = await api
      .operatorClient()
      .post("/internal/v1/leadership", { holder: "pod-1" }, { headers });
    return answer.body as { epoch: number; former_epoch: number | null };
  };
  const first = await claim();
  expect(first.former_epoch).toBeNull();
  expect((await claim()).former_epoch).toBe(first.epoch);
});

test("an epoch from before a database restore is never valid after the restore", async () => {
  const cluster = { clusterId: "restored" };
  await claimLeadership(api, cluster);
  const backup = await api.db("operator_clusters").where({ cluster_id: "restored" });
  api.clock.advance(1);
  const former = [await claimLeadership(api, cluster), await claimLeadership(api, cluster)];
  await api.db("operator_clusters").where({ cluster_id: "restored" }).delete();
  await api.db("operator_clusters").insert(backup);
  api.clock.advance(1);
  const leader = await claimLeadership(api, cluster);
  expect(former).not.toContain(leader);
  expect(leader).toBeGreaterThan(Math.max(...former));
});

describe("the running API", () => {
  let database: TestDatabase;
  let running: Api | undefined;
  beforeAll(async () => {
    database = await migratedDatabase();
  });
  afterAll(() => database.drop());

  async function run(settings: Record<string, string>): Promise<Api> {
    const config = readApiConfig({
      DATABASE_URL: database.url,
      SEALING_KEY: randomBytes(32).toString("base64"),
      BASE_URL: "http://127.0.0.1",
      DEVELOPMENT: "true",
      PORT: "0",
      OPERATOR_PORT: "0",
      VAULT_URL: "https://127.0.0.1:1",
      ...(await vaultFiles()),
      ...settings,
    });
    const log = pino({ level: "silent" });
    return startProductionApi({ config, clock: agreeing(), log, metrics: createMetrics(), version: "0" });
  }

  const claim = (client: HttpClient) =>
    client.post("/internal/v1/leadership", { holder: "pod-1" }, { headers: stolen() });

  test("serves the operator at a separate port, by default only on this machine", async () => {
    running = await run({ OPERATOR_TOKEN });
    const at = (port: number | undefined) => createClient(`http://127.0.0.1:${port}`);
    expect((await claim(at(running.operatorPort))).status).toBe(200);
    expect((await claim(at(running.port))).status).toBe(404);
    await expect(fetch(`http://127.0.0.2:${running.operatorPort}/internal/v1/state`)).rejects.toThrow();
    await running.stop();
  });

  test("accepts OPERATOR_TOKEN on every replica only for the cluster that used it first", async () => {
    const fresh = await migratedDatabase();
    const first = await run({ OPERATOR_TOKEN, DATABASE_URL: fresh.url });
    const second = await run({ OPERATOR_TOKEN, DATABASE_URL: fresh.url });
    const ask = (port: number | undefined, cluster: string) =>
      createClient(`http://127.0.0.1:${port}`).post(
        "/internal/v1/leadership",
        { holder: "pod-1" },
        { headers: stolen(0, cluster) },
      );
    const clusters = Array.from({ length: 8 }, (_, n) => `race-${n}`);
    const ports = [first.operatorPort, second.operatorPort];
    const answers = await Promise.all(clusters.map((cluster, n) => ask(ports[n % 2], cluster)));
    const known = clusters.filter((_, n) => answers[n]?.status === 200);
    expect(known).toHaveLength(1);
    for (const cluster of clusters) {
      for (const port of ports) {
        expect((await ask(port, cluster)).status).toBe(cluster === known[0] ? 200 : 401);
      }
    }
    await Promise.all([first.stop(), second.stop()]);
    await fresh.drop();
  });

  test("serves its documents at the public port, and none at the operator's port", async () => {
    running = await run({ OPERATOR_TOKEN, SERVICE_WORD: "acme" });
    const at = (port: number | undefined, path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    for (const path of ["/openapi.json", "/asyncapi.json", "/docs"]) {
      expect([path, (await at(running.port, path)).status]).toEqual([path, 200]);
      expect([path, (await at(running.operatorPort, path)).status]).toEqual([path, 404]);
    }
    expect(await (await at(running.port, "/asyncapi.json")).text()).toContain("X-Acme-Delivery-ID");
    const asBrowser = { headers: { accept: "text/html" }, redirect: "manual" } as const;
    for (const [port, status] of [[running.port, 302] as const, [running.operatorPort, 404] as const]) {
      expect((await fetch(`http://127.0.0.1:${port}/`, asBrowser)).status).toBe(status);
    }
    await running.stop();
  });

  test("does not open the operator's port without an operator token", async () => {
    running = await run({});
    expect(running.operatorPort).toBeUndefined();
    expect((await claim(createClient(`http://127.0.0.1:${running.port}`))).status).toBe(404);
    await running.stop();
  });

  test("uses port 8081 for the operator by default", async () => {
    const environment = {
      DATABASE_URL: "postgres://localhost/none",
      SEALING_KEY: `${"A".repeat(43)}=`,
      BASE_URL: "http://localhost",
      DEVELOPMENT: "true",
      VAULT_URL: "https://localhost",
      ...(await vaultFiles()),
    };
    expect(readApiConfig(environment)).toMatchObject({ OPERATOR_HOST: "127.0.0.1", OPERATOR_PORT: 8081 });
  });
});
