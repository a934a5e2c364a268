import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";

/** What a relay process works on: the database, Kafka or none, and who reads the events. */
export type RelaySettings = {
  url: string;
  kafka?: KafkaSettings | undefined;
  consumer: "nothing" | "webhooks";
};

/** That it is to begin, how many events it is to handle, and whether it notes when each was. */
export type Begin = { events: number; collects: boolean };

/** What it saw: from the begin to the commit of the last event, and when each was handled. Milliseconds. */
export type Ended = { startedAt: number; endedAt: number; handled: [number, number][] };

const SCRIPT = fileURLToPath(new URL("relay_process.ts", import.meta.url));

/** Starts one that has joined, and waits. */
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
    /** Lets it begin; `ended` resolves when it has handled so many events. */
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
