import { randomUUID } from "node:crypto";

/**
 * Characters that an `X-Request-Id` may have: longer ones do not pass the header limits of the proxies in
 * front.
 */
export const MAX_REQUEST_ID = 1024;
const LONGEST_LOGGED = 128;
const SENDABLE = /^[\t\x20-\x7e\x80-\xff]+$/;

/** The id under which a request is answered and logged. */
export type RequestId = {
  /**
   * The caller's own `X-Request-Id`, byte for byte; a new one when there is none, or when it cannot be sent
   * back.
   */
  answered: string;
  /** The same for the log: at most 128 printable ASCII characters, a question mark for every other one. */
  logged: string;
  /**
   * Why the call must be refused: AuthZEN 1.0 asks for the very same id in the answer, so none is cut or
   * replaced.
   */
  fault?: string;
};

/**
 * The id of a request by what it presents. One that is sent in several headers is their list, as HTTP reads
 * it.
 */
export function requestIdOf(presented: string | string[] | undefined): RequestId {
  const text = Array.isArray(presented) ? presented.join(", ") : presented;
  if (text === undefined || text === "") return fresh();
  if (text.length > MAX_REQUEST_ID) return { ...fresh(), fault: `longer than ${MAX_REQUEST_ID} bytes` };
  if (!SENDABLE.test(text)) return { ...fresh(), fault: "holds a control character" };
  return { answered: text, logged: text.slice(0, LONGEST_LOGGED).replaceAll(/[^\x20-\x7e]/g, "?") };
}

function fresh(): RequestId {
  const id = randomUUID();
  return { answered: id, logged: id };
}
