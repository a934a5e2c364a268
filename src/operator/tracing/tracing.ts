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
