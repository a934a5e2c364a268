import { AsyncLocalStorage } from "node:async_hooks";
import type { Span } from "@opentelemetry/api";
import { pause } from "../kubernetes/pause.ts";
import type { Key } from "./kinds.ts";
import { resultOf, type Visit } from "./queue.ts";

/** Records the operator's work as OpenTelemetry spans. */
export type Tracing = {
  visit(key: Key, work: () => Promise<Visit>): Promise<Visit>;
  /** Returns the `traceparent` header of the current visit; `undefined` outside of a visit. */
  traceparent(): string | undefined;
  /** Exports the remaining spans. Takes at most 3 s. */
  stop(): Promise<void>;
};

/** A tracing that records nothing. */
export const noTracing: Tracing = {
  visit: (_, work) => work(),
  traceparent: () => undefined,
  stop: async () => undefined,
};

const NAME = "deputize-operator";
const EXPORT_MS = 5_000;
const STOP_MS = 3_000;

/**
 * Creates a tracing that sends spans to an OTLP collector over HTTP, for example `http://localhost:4318`. If
 * the collector is unavailable, spans are dropped. Without an endpoint, it loads no OpenTelemetry package.
 */
export async function createTracing(endpoint: string | undefined, version: string): Promise<Tracing> {
  if (endpoint === undefined) return noTracing;
  const [{ ROOT_CONTEXT, SpanStatusCode }, { OTLPTraceExporter }, { resourceFromAttributes }, sdk] =
    await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
      import("@opentelemetry/sdk-trace"),
    ]);
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/$/, "")}/v1/traces`,
    timeoutMillis: EXPORT_MS,
  });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ "service.name": NAME, "service.version": version }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter, exportTimeoutMillis: EXPORT_MS })],
  });
  const tracer = provider.getTracer(NAME, version);
  const current = new AsyncLocalStorage<Span>();
  return {
    async visit({ kind, namespace, name }, work) {
      const attributes = { "k8s.namespace.name": namespace, "deputize.kind": kind, "deputize.name": name };
      const span = tracer.startSpan(`reconcile ${kind}`, { attributes }, ROOT_CONTEXT);
      try {
        const visit = await current.run(span, work);
        span.setAttribute("deputize.result", resultOf(visit));
        if (visit.retry) span.setStatus({ code: SpanStatusCode.ERROR });
        return visit;
      } catch (error) {
        span.setAttribute("deputize.result", "error");
        span.setStatus({ code: SpanStatusCode.ERROR });
        throw error;
      } finally {
        span.end();
      }
    },
    traceparent() {
      const context = current.getStore()?.spanContext();
      if (context === undefined) return undefined;
      return `00-${context.traceId}-${context.spanId}-${context.traceFlags.toString(16).padStart(2, "0")}`;
    },
    async stop() {
      const stopped = new AbortController();
      const ending = provider
        .shutdown()
        .catch(() => undefined)
        .then(() => stopped.abort());
      await Promise.race([ending, pause(STOP_MS, stopped.signal)]);
    },
  };
}
