import { AsyncLocalStorage } from "node:async_hooks";

/** W3C Trace Context, version 00. Ids of zeros are no ids. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const current = new AsyncLocalStorage<string>();

/**
 * Has what `work` causes belong to the trace that a request names in its header `traceparent`. A malformed
 * one is no trace.
 */
export function inTrace<T>(presented: string | string[] | undefined, work: () => T): T {
  if (typeof presented !== "string" || !TRACEPARENT.test(presented)) return work();
  return current.run(presented, work);
}

/** The trace that the running work belongs to. */
export function traceparent(): string | undefined {
  return current.getStore();
}
