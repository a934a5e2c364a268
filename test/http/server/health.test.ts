import { afterEach, describe, expect, test } from "vitest";
import { createHealth, showReadiness } from "../../../src/http/server/health.ts";
import { type RunningServer, startServer } from "../../../src/http/server/server.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { startApi } from "../../support/api.ts";
import { echoRoute, failingRoute, refusal } from "../support/sample_routes.ts";

let server: RunningServer | undefined;
afterEach(() => server?.stop(0));

async function start(ready: () => Promise<boolean>, metrics = createMetrics()): Promise<string> {
  server = await startServer(createHealth({ metrics, ready }), { host: "127.0.0.1", port: 0 });
  return `http://127.0.0.1:${server.port}`;
}

describe("the health port", () => {
  test("reports the process as live even if other components are not", async () => {
    const url = await start(() => Promise.reject(new Error("no database")));
    expect((await fetch(`${url}/livez`)).status).toBe(200);
  });

  test("answers /healthz like /livez, with 503 if the process does not work", async () => {
    let isAlive = true;
    const listener = createHealth({
      metrics: createMetrics(),
      ready: async () => true,
      alive: () => isAlive,
    });
    server = await startServer(listener, { host: "127.0.0.1", port: 0 });
    const statuses = () =>
      Promise.all(
        ["/livez", "/healthz", "/readyz"].map(
          async (path) => (await fetch(`http://127.0.0.1:${server?.port}${path}`)).status,
        ),
      );
    expect(await statuses()).toEqual([200, 200, 200]);
    isAlive = false;
    expect(await statuses()).toEqual([503, 503, 200]);
  });

  test.each([
    ["ready", async () => true, 200],
    ["not ready", async () => false, 503],
    ["broken", () => Promise.reject(new Error("no database")), 503],
    ["hanging", () => new Promise<boolean>(() => {}), 503],
  ])("returns the right status for a process that is %s", async (_, ready, status) => {
    const metrics = createMetrics();
    showReadiness(metrics, "worker", ready);
    const url = await start(ready, metrics);
    expect((await fetch(`${url}/readyz`)).status).toBe(status);
    const text = await (await fetch(`${url}/metrics`)).text();
    expect(text).toContain(`\ndeputize_ready{role="worker"} ${status === 200 ? 1 : 0}\n`);
  });

  test.each(["/", "/readyz/", "/metricsx", "/__proto__", "/constructor"])(
    "does not serve %s",
    async (path) => {
      const url = await start(async () => true);
      expect((await fetch(`${url}${path}`)).status).toBe(404);
    },
  );

  test("answers GET and HEAD only", async () => {
    const url = await start(async () => true);
    expect((await fetch(`${url}/livez`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${url}/livez?verbose`, { method: "HEAD" })).status).toBe(200);
  });

  test("serves metrics of the process at /metrics", async () => {
    const url = await start(async () => true, createMetrics({ processMetrics: true }));
    const answer = await fetch(`${url}/metrics`);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain; version=/);
    expect(await answer.text()).toContain("process_resident_memory_bytes");
  });
});

test("the API counts requests by route and status, without ids in labels", async () => {
  const api = await startApi({
    routes: [
      echoRoute({ id: "get_thing", method: "GET", path: "/v1/service/things/{id}" }),
      failingRoute(refusal("agent_disabled")),
    ],
  });
  const url = await start(async () => true, api.metrics);
  for (const id of ["thing-1", "thing-2"]) await api.client().get(`/v1/service/things/${id}`);
  await api.client().post("/v1/service/fail");
  for (const path of ["/nowhere-1", "/nowhere-2"]) await api.client().get(path);
  const text = await (await fetch(`${url}/metrics`)).text();
  expect(text).toContain('deputize_http_request_seconds_count{route="get_thing",status="200"} 2');
  expect(text).toContain('deputize_http_request_seconds_count{route="fail",status="409"} 1');
  expect(text).toContain('deputize_http_request_seconds_count{route="none",status="404"} 2');
  expect(text).not.toContain("thing-1");
  expect(text).not.toContain("nowhere");
  await api.stop();
});
