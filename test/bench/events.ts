import { type BenchDatabase, withBenchDatabase } from "./database.ts";
import { measureHanging, measureMemory } from "./events/delivering.ts";
import { startBenchKafka } from "./events/kafka.ts";
import { measureDrain, measureLatency } from "./events/relaying.ts";

/**
 * Events from the commit of a change to their consumers and receivers. `node test/bench/events.ts [--json]
 * [--only=latency,drain,hanging] [--memory[=minutes]]`: without `--only` all but the memory, which takes 10
 * minutes if no other number is given.
 */
const option = (name: string) =>
  process.argv.find((argument) => argument === `--${name}` || argument.startsWith(`--${name}=`))?.split("=");
const memory = option("memory");
const only = option("only")?.[1]?.split(",") ?? (memory === undefined ? ["latency", "drain", "hanging"] : []);
const isJson = process.argv.includes("--json");

function show(name: string, figures: readonly object[]): void {
  if (isJson) {
    console.log(JSON.stringify({ [name]: figures }));
  } else {
    console.log(`\n${name}`);
    console.table(figures);
  }
}

async function measure(database: BenchDatabase): Promise<void> {
  const kafka = only.includes("latency") || only.includes("drain") ? await startBenchKafka() : undefined;
  try {
    const place = { database, kafka };
    if (only.includes("latency")) show("commit to consumer", await measureLatency(place));
    if (only.includes("drain")) show("a full outbox drained", await measureDrain(place));
  } finally {
    await kafka?.stop();
  }
  if (only.includes("hanging")) show("healthy receivers beside hanging ones", await measureHanging(database));
  if (memory !== undefined) show("memory under load", await measureMemory(database, Number(memory[1] ?? 10)));
}

await withBenchDatabase({}, measure);
