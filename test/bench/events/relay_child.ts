import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";

export type RelaySettings = {
  url: string;
  kafka?: KafkaSettings | undefined;
  consumer: "nothing" | "webhooks";
};

/** The number of events to handle, and whether to record when each event was handled. */
export type Begin = { events: number; collects: boolean };

/** Times in milliseconds: the start, the commit of the last event, and the handling of each event. */
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
    /** `ended` resolves when the process has handled the given number of events. */
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
