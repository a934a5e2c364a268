import { setTimeout as sleep } from "node:timers/promises";
import { backoff } from "../../concurrency/backoff.ts";
import { type ConnectionSettings, openConnection } from "../../db/connection.ts";

const CHANNEL = "api_keys";
/** Delays before reconnecting, in milliseconds. */
const DELAY = { base: 100, cap: 1_000, jitter: [0.75, 1.25] } as const;
const HEARTBEAT_MS = 2_000;
const ANSWER_WITHIN_MS = 2_000;

/** `onListening`: `onChange` now receives each changed key. `onInterrupted`: changes may have been missed. */
export type ApiKeyChangeHandler = {
  onListening(): void;
  onChange(keyPrefix: string): void;
  onInterrupted(): void;
};

/** `opened` receives each connection before it connects. */
export type ChangesDeps = Pick<ConnectionSettings, "url" | "opened"> & { onError: (error: Error) => void };

/** A running listener. */
export type ApiKeyChanges = { close(): Promise<void> };

/**
 * Listens for committed changes of API keys on a dedicated database connection, and reconnects until it is
 * closed. A connection that no longer answers counts as lost. Passes faults to `onError`, never throws.
 */
export function listenForApiKeyChanges(
  { url, opened, onError }: ChangesDeps,
  handler: ApiKeyChangeHandler,
): ApiKeyChanges {
  const closing = new AbortController();
  const running = keepListening({ url, opened, onError }, handler, closing.signal);
  return {
    async close() {
      closing.abort();
      await running;
    },
  };
}

async function keepListening(
  { onError, ...from }: ChangesDeps,
  handler: ApiKeyChangeHandler,
  closing: AbortSignal,
): Promise<void> {
  let failures = 0;
  while (!closing.aborted) {
    try {
      await listenOnce(from, handler, closing, () => {
        failures = 0;
      });
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
    } finally {
      handler.onInterrupted();
    }
    failures += 1;
    await passed(backoff(DELAY, failures), closing);
  }
}

/** Rejects if the connection cannot be opened, is lost or no longer answers. */
async function listenOnce(
  from: Pick<ConnectionSettings, "url" | "opened">,
  handler: ApiKeyChangeHandler,
  closing: AbortSignal,
  onListening: () => void,
): Promise<void> {
  const client = openConnection({
    ...from,
    name: "deputize-api-keys",
    keepsSession: true,
    connectMs: ANSWER_WITHIN_MS,
    queryMs: ANSWER_WITHIN_MS,
  });
  const lost = new AbortController();
  client.on("error", (error) => lost.abort(error));
  client.on("end", () => lost.abort(new Error("The connection that listens for API key changes ended")));
  client.on("notification", ({ payload }) => handler.onChange(payload ?? ""));
  const over = AbortSignal.any([lost.signal, closing]);
  try {
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
    handler.onListening();
    onListening();
    while (await passed(HEARTBEAT_MS, over)) await client.query("select 1");
  } finally {
    await Promise.race([client.end().catch(() => {}), sleep(ANSWER_WITHIN_MS, undefined, { ref: false })]);
  }
  if (!closing.aborted) lost.signal.throwIfAborted();
}

/** Resolves to true after `ms` milliseconds, or to false if `over` aborts first. */
function passed(ms: number, over: AbortSignal): Promise<boolean> {
  return sleep(ms, true, { signal: over }).catch(() => false);
}
