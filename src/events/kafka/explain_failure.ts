import type { KafkaSettings } from "../../input/event_settings.ts";
import { explained, noBrokerError, unreachableListener } from "./client.ts";
import { createKafkaProbe } from "./probe.ts";

/** Returns the addresses that Kafka advertises now. Rejects if no broker of the settings answers. */
type AskBootstrap = (settings: KafkaSettings) => Promise<ReadonlySet<string>>;

/**
 * Explains an error of the connection to Kafka, like `explained`. If a broker that only Kafka has named
 * cannot be reached, first asks the brokers of the settings, because this broker may have stopped. Blames its
 * address only if Kafka still advertises it.
 */
export async function explainFailure(
  error: unknown,
  settings: KafkaSettings,
  askBootstrap: AskBootstrap = advertisedNow,
): Promise<Error> {
  const listener = unreachableListener(error, settings);
  if (listener === undefined) return explained(error, settings);
  const advertised = await askBootstrap(settings).catch(() => undefined);
  if (advertised === undefined) return noBrokerError(settings, error);
  if (advertised.has(listener)) return explained(error, settings);
  return new Error(
    `The broker ${listener} does not answer, and Kafka no longer advertises it: it has stopped`,
    {
      cause: error,
    },
  );
}

const STEP_MS = 2_000;

async function advertisedNow(settings: KafkaSettings): Promise<ReadonlySet<string>> {
  const ask = async (broker: string): Promise<ReadonlySet<string>> => {
    const cut = broker.lastIndexOf(":");
    const place = { host: broker.slice(0, cut), port: Number(broker.slice(cut + 1)) };
    const probe = createKafkaProbe(settings, place, STEP_MS);
    try {
      await probe.connect();
      const { brokers } = await probe.describe([]);
      return new Set(brokers.map(({ host, port }) => `${host}:${port}`));
    } finally {
      await probe.close().catch(() => undefined);
    }
  };
  return Promise.any(settings.brokers.map(ask));
}
