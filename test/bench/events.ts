import { type BenchDatabase, withBenchDatabase } from "./database.ts";
import { measureHanging, measureMemory } from "./events/delivering.ts";
import { startBenchKafka } from "./events/kafka.ts";
import { measureDrain, measureLatency } from "./events/relaying.ts";
import type { Ratio } from "./results/figures.ts";
import { createRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";

/**
 * Measures how long events take from the commit of a change to their consumers and receivers. Run `node
 * test/bench/events.ts [--only=latency,drain,hanging] [--memory[=minutes]]`. Without `--only` it measures
 * everything except memory. The default for memory is 10 minutes.
 */
const option = (name: string) =>
  process.argv.find((argument) => argument === `--${name}` || argument.startsWith(`--${name}=`))?.split("=");
const memory = option("memory");
const only = option("only")?.[1]?.split(",") ?? (memory === undefined ? ["latency", "drain", "hanging"] : []);
const record = createRecord();
const ratios: Ratio[] = [];

async function measure(database: BenchDatabase): Promise<void> {
  const kafka = only.includes("latency") || only.includes("drain") ? await startBenchKafka() : undefined;
  try {
    const place = { database, kafka, record };
    if (only.includes("latency")) ratios.push(...(await measureLatency(place)));
    if (only.includes("drain")) ratios.push(...(await measureDrain(place)));
  } finally {
    await kafka?.stop();
  }
  if (only.includes("hanging")) ratios.push(await measureHanging(database, record));
  if (memory !== undefined) await measureMemory(database, record, Number(memory[1] ?? 10));
}

await withBenchDatabase({}, measure);
report({ figures: record.figures(), ratios });
