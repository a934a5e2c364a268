import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";

/** Settings of a relay process: the database, Kafka if used, and the consumer that receives the events. */
export type RelaySettings = {
  url: string;
  kafka?: KafkaSettings | undefined;
  consumer: "nothing" | "webhooks";
};

/**
 * Message that starts the work: the number of events to handle, and whether to record when each event was
 * handled.
 */
export type Begin = { events: number; collects: boolean };

/**
 * Result, with times in milliseconds: the start, the commit of the last event, and the time at which each
 * event was handled.
 */
export type Ended = { startedAt: number; endedAt: number; handled: [number, number][] };

const SCRIPT = fileURLToPath(new URL("relay_process.ts", import.meta.url));

/** Starts a relay process. The process is ready and waits for `begin`. */
export async function startRelayProcess(settings: RelaySettings) {
  const child = fork(SCRIPT, { env: { ...process.env, RELAY: JSON.stringify(settings) } });
  const message = async <T>(): Promise<T> => {
    const [said] = await Promise.race([
      once(child, "message"),
      once(child, "exit").then(([code]) => {
        throw new Error(`The relay process ended with ${code}`);
      }),
    ]);
    return said;
  };
  await message();
  return {
    pid: child.pid ?? 0,
    /** Starts the work. `ended` resolves when the process has handled that many events. */
    begin(begin: Begin): { ended: Promise<Ended> } {
      const ended = message<Ended>();
      child.send(begin);
      return { ended };
    },
    async stop(): Promise<void> {
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      await exit;
    },
  };
}
