import { AsyncLocalStorage } from "node:async_hooks";
import { ROOT_CONTEXT, type Span, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { pause } from "../../kubernetes/pause.ts";
import { resultOf } from "../queue/queue.ts";
import type { Tracing } from "./tracing.ts";

const NAME = "deputize-operator";
const EXPORT_MS = 5_000;
const STOP_MS = 3_000;

/**
 * Spans by OTLP over HTTP, sent in batches. A collector that is away or slow disturbs nothing: spans are
 * dropped.
 */
export function createOtlpTracing(endpoint: string, version: string): Tracing {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/$/, "")}/v1/traces`,
    timeoutMillis: EXPORT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": NAME, "service.version": version }),
    spanProcessors: [new BatchSpanProcessor({ exporter, exportTimeoutMillis: EXPORT_MS })],
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
