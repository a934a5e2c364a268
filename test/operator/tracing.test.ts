import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createTracing, noTracing } from "../../src/operator/tracing.ts";
import { folderTest } from "./operator_folder.ts";

type Attribute = { key: string; value: { stringValue?: string } };
type Span = {
  name: string;
  traceId: string;
  spanId: string;
  attributes: Attribute[];
  status: { code?: number };
};
type Batch = {
  resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Span[] }[] }[];
};

const key = { kind: "Agent", namespace: "shop", name: "bot" } as const;
const of = (attributes: Attribute[]) =>
  Object.fromEntries(attributes.map(({ key: name, value }) => [name, value.stringValue]));

describe("OpenTelemetry spans", () => {
  let collector: Server;
  let url: string;
  let batches: Batch[];
  const spans = () =>
    batches
      .flatMap(({ resourceSpans }) => resourceSpans.flatMap((each) => each.scopeSpans))
      .flatMap((each) => each.spans);

  beforeEach(async () => {
    batches = [];
    collector = createServer(async (request, response) => {
      if (request.url === "/v1/traces") batches.push(JSON.parse(await text(request)));
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  });
  afterEach(() => {
    collector.closeAllConnections();
    collector.close();
  });

  test("record the object, the version and the result of each reconciliation", async () => {
    const tracing = await createTracing(`${url}/`, "1.2.3");
    await tracing.visit(key, async () => ({}));
    await tracing.visit(key, async () => ({ retry: true }));
    await expect(tracing.visit(key, () => Promise.reject(new Error("secret")))).rejects.toThrow("secret");
    await tracing.stop();
    const resource = batches[0]?.resourceSpans[0]?.resource.attributes ?? [];
    expect(of(resource)).toMatchObject({ "service.name": "deputize-operator", "service.version": "1.2.3" });
    expect(
      spans().map(({ name, attributes, status }) => ({ name, ...of(attributes), code: status.code })),
    ).toEqual(
      [
        ["success", 0],
        ["error", 2],
        ["error", 2],
      ].map(([result, code]) => ({
        name: "reconcile Agent",
        "k8s.namespace.name": "shop",
        "deputize.kind": "Agent",
        "deputize.name": "bot",
        "deputize.result": result,
        code,
      })),
    );
    expect(JSON.stringify(batches)).not.toContain("secret");
  });

  test("continue in API calls made during a reconciliation, and in no other calls", async () => {
    const tracing = await createTracing(url, "0");
    const inside: (string | undefined)[] = [];
    await Promise.all(
      [1, 2].map(() =>
        tracing.visit(key, async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          inside.push(tracing.traceparent());
          return {};
        }),
      ),
    );
    expect(tracing.traceparent()).toBeUndefined();
    await tracing.stop();
    const headers = spans().map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`);
    expect(inside.toSorted()).toEqual(headers.toSorted());
    expect(new Set(headers).size).toBe(2);
  });

  test("affect nothing else while the collector is unavailable", async () => {
    collector.closeAllConnections();
    collector.close();
    const tracing = await createTracing(url, "0");
    expect(await tracing.visit(key, async () => ({ afterMs: 5 }))).toEqual({ afterMs: 5 });
    const begun = performance.now();
    await tracing.stop();
    expect(performance.now() - begun).toBeLessThan(4_500);
  });

  test("exist only with a configured endpoint", async () => {
    expect(await createTracing(undefined, "0")).toBe(noTracing);
    expect(await noTracing.visit(key, async () => ({ afterMs: 5 }))).toEqual({ afterMs: 5 });
    expect(noTracing.traceparent()).toBeUndefined();
  });

  folderTest(
    "continue at the API for a running operator, which sends the last ones when it stops",
    async ({ world }) => {
      world.config.OTEL_EXPORTER_OTLP_ENDPOINT = url;
      await world.start();
      await world.declareAgent();
      await world.stop();
      const [call] = world.api.callsTo("PUT", "/platforms");
      const traces = new Set(spans().map(({ traceId }) => traceId));
      expect(traces).toContain(call?.traceparent?.split("-")[1]);
    },
  );
});
