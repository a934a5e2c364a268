import { AsyncLocalStorage } from "node:async_hooks";

/** W3C Trace Context, version 00. An id of only zeros is invalid. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const current = new AsyncLocalStorage<string>();

/** Runs `work` in the trace that the request's `traceparent` header names. Ignores a malformed header. */
export function inTrace<T>(presented: string | string[] | undefined, work: () => T): T {
  if (typeof presented !== "string" || !TRACEPARENT.test(presented)) return work();
  return current.run(presented, work);
}

/** Returns the `traceparent` of the running work's trace. */
export function traceparent(): string | undefined {
  return current.getStore();
}
