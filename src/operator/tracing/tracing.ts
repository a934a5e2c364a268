import type { Key } from "../kinds.ts";
import type { Visit } from "../queue/queue.ts";

/** Records what the operator does as spans of OpenTelemetry. */
export type Tracing = {
  /** Makes a span of one visit of an object. */
  visit(key: Key, work: () => Promise<Visit>): Promise<Visit>;
  /** The header that makes what a call causes elsewhere a part of the visit; `undefined` outside of one. */
  traceparent(): string | undefined;
  /** Sends what is left, for a few seconds at most. */
  stop(): Promise<void>;
};

/** Records nothing. */
export const noTracing: Tracing = {
  visit: (_, work) => work(),
  traceparent: () => undefined,
  stop: async () => undefined,
};

/**
 * Sends spans to the collector at an endpoint (OTLP over HTTP, as `http://localhost:4318`); without one,
 * nothing is recorded, and nothing of OpenTelemetry is loaded.
 */
export async function createTracing(endpoint: string | undefined, version: string): Promise<Tracing> {
  if (endpoint === undefined) return noTracing;
  const { createOtlpTracing } = await import("./otlp.ts");
  return createOtlpTracing(endpoint, version);
}
