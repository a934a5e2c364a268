import { randomUUID } from "node:crypto";

const SANE = /^[A-Za-z0-9._:@/+=-]{1,128}$/;

/** The id under which a request is answered and logged: the caller's own `X-Request-Id` when it is harmless text, else a new one. */
export function requestIdOf(presented: string | string[] | undefined): string {
  return typeof presented === "string" && SANE.test(presented) ? presented : randomUUID();
}
