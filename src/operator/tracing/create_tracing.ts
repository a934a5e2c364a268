import { noTracing, type Tracing } from "./tracing.ts";

/**
 * Sends spans to the collector at an endpoint (OTLP over HTTP, as `http://localhost:4318`); without one,
 * nothing is recorded, and nothing of OpenTelemetry is loaded.
 */
export async function createTracing(endpoint: string | undefined, version: string): Promise<Tracing> {
  if (endpoint === undefined) return noTracing;
  const { createOtlpTracing } = await import("./otlp.ts");
  return createOtlpTracing(endpoint, version);
}
