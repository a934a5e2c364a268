import { Kafka, type KafkaConfig, logLevel } from "kafkajs";
import RequestQueue from "kafkajs/src/network/requestQueue/index.js";
import { systemClock } from "../../clock.ts";
import type { KafkaSettings } from "../../input/event_settings.ts";
import type { Logger } from "../../log.ts";
import { clientConfig } from "./settings.ts";

/** The library logs what it will try again as an error: that is nothing to wake anybody for. */
const LEVELS = { [logLevel.ERROR]: "warn", [logLevel.WARN]: "debug" } as const;

/**
 * A client of the library, with its faults worked around. It connects to nothing by itself. `change` says how
 * often it tries to connect, where that is not to be ten seconds long, as the library does.
 */
export function createKafkaClient(
  settings: KafkaSettings,
  log: Logger,
  change: Pick<KafkaConfig, "retry"> = {},
): Kafka {
  calmRequestQueues();
  return new Kafka({
    ...clientConfig(settings),
    ...change,
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => {
      const level = LEVELS[entry.level as keyof typeof LEVELS] ?? "debug";
      const { message, broker, groupId, retryCount, error } = entry.log;
      // Of an answer, the text of Kafka's code; other errors can be objects with anything in them.
      const reason = message.startsWith("Response ") && typeof error === "string" ? error : undefined;
      log[level]({ kafka: entry.namespace, broker, groupId, retryCount, reason }, message);
    },
  });
}

/**
 * A queue of the library checks itself forever, every millisecond, and with times in the past, of which newer
 * versions of Node warn. It needs to be checked only while something waits in it.
 */
function calmRequestQueues(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function scheduleCheck() {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const throttledMs = this.throttledUntil - systemClock.now().getTime();
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      throttledMs > 0 ? throttledMs : CHECK_MS,
    );
  };
}

const CHECK_MS = 10;
