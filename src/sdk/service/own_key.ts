import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import type { Verifier } from "../operation.ts";
import { MAX_ANSWER_BYTES } from "./exchange.ts";

/** The facts about an API key that the service returns: its connection, and the agent of an agent key. */
export type OwnKey = { connectionId: string; agentId: string | undefined; verifier: Verifier };

/** The path of the call that describes the calling key, below `/v1/service`. */
export const OWN_KEY_PATH = "keys/self";

/** A connection can get another name. The service refuses proofs for its former name. */
const LONGEST_AGE_MS = 60_000;

/**
 * Creates a function that returns what `read` returns for an API key. Concurrent callers share one call, and
 * later callers its result, for a minute. The next caller after a failure tries again. Rejects with the
 * signal's reason as soon as `signal` aborts, which does not end the shared call.
 */
export function createLookUp<T>(
  read: (key: string) => Promise<T>,
  now: () => number = () => performance.now(),
): (key: string, signal?: AbortSignal) => Promise<T> {
  let last: { key: string; since: number; result: Promise<T> } | undefined;
  return (key, signal) => {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    if (last?.key !== key || now() - last.since >= LONGEST_AGE_MS) {
      const current = { key, since: now(), result: read(key) };
      last = current;
      current.result.catch(() => {
        if (last === current) last = undefined;
      });
    }
    return unlessAborted(last.result, signal);
  };
}

/** Reads the body of a response to `keys/self`. Returns `undefined` if it is not one. */
export function readOwnKey(body: Readonly<Record<string, unknown>>): OwnKey | undefined {
  const { connection_id: connectionId, verifier_id: verifierId, workspace_id: workspaceId, agent_id } = body;
  if (!isText(connectionId) || !isText(verifierId) || !isText(workspaceId)) return undefined;
  return {
    connectionId,
    agentId: isText(agent_id) ? agent_id : undefined,
    verifier: { verifierId, workspaceId },
  };
}

/** Parses a response's body strictly. Returns an empty object for anything but one JSON object. */
export function readObject(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value = plainJson(parseJson(body, { bytes: MAX_ANSWER_BYTES, depth: 32 }));
    return Object(value) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

function unlessAborted<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return result;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    result.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
