import { subscribe } from "node:diagnostics_channel";
import { createRequire } from "node:module";
import type kafkajs from "kafkajs";
import type { Message } from "kafkajs";
import type pg from "pg";

/** Preloaded into the worker. Kills the worker before or after a step, as `DIE_AT` says: `<step> before`. */
const require = createRequire(import.meta.url);
const [, step = "", side = ""] = /^(.*) (before|after)$/.exec(process.env.DIE_AT ?? "") ?? [];

/** Steps that are SQL statements. */
const STATEMENTS: Record<string, RegExp> = {
  "relay reads": /from outbox o\s+where o\.id >/,
  "relay takes off": /delete from outbox o/,
  "consumer enters the inbox": /insert into inbox /,
  "dispatcher claims": /with recursive waiting/,
  "dispatcher records": /insert into "webhook_attempts"/,
  "history is read": /from \(select \* from "history_queue"/,
  "history is taken off": /delete from history_queue q/,
  "dead letter is noted": /update "dead_letters" set "carried_at"/,
};
/** Steps that are calls to Kafka and to receivers. */
const CALLS = [
  "relay publishes",
  "history is sent",
  "consumer commits its transaction",
  "consumer commits its offset",
  "dispatcher sends",
] as const;

/** Every moment at which a worker can be killed. */
export const MOMENTS: readonly string[] = [...Object.keys(STATEMENTS), ...CALLS].flatMap((name) => [
  `${name} before`,
  `${name} after`,
]);

function die(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;);
}

/** Kills the process before the call, or after it succeeded. */
function around<T>(name: string, call: () => Promise<T>): Promise<T> {
  if (name !== step) return call();
  if (side === "before") die();
  return call().then(die);
}

type Query = { text?: string };
type Result = { rowCount: number | null };
type Done = (error: unknown, result?: Result) => void;

/** True once a delivery may exist. Before that, a claim finds no delivery and does not count as a step. */
let hasConsumed = false;

function watchStatements(): void {
  const { Client } = require("pg") as typeof pg;
  const prototype = Client.prototype as unknown as { query(...args: unknown[]): unknown };
  const { query } = prototype;
  const consuming = new WeakSet<object>();
  prototype.query = function watched(this: object, ...args: unknown[]): unknown {
    const text = textOf(args[0]);
    const name = nameOf(text, consuming.has(this));
    if (STATEMENTS["consumer enters the inbox"]?.test(text)) consuming.add(this);
    if (/^(commit|rollback)/i.test(text)) hasConsumed = consuming.delete(this) || hasConsumed;
    if (name !== step || (name === "dispatcher claims" && !hasConsumed)) return query.apply(this, args);
    if (side === "before") die();
    const done = args.at(-1);
    if (typeof done !== "function") return (query.apply(this, args) as Promise<Result>).then(dieIfFull);
    const dying: Done = (error, result) => (done as Done)(error, error ? result : dieIfFull(result));
    return query.apply(this, [...args.slice(0, -1), dying]);
  };
}

function textOf(query: unknown): string {
  return typeof query === "string" ? query : ((query as Query | undefined)?.text ?? "");
}

/** Kills the worker after a statement that found rows. Otherwise, the statement does not count as a step. */
function dieIfFull(result: Result | undefined): Result | undefined {
  if (result?.rowCount === 0) return result;
  die();
}

function nameOf(text: string, isConsuming: boolean): string | undefined {
  if (isConsuming && /^commit/i.test(text)) return "consumer commits its transaction";
  return Object.entries(STATEMENTS).find(([, pattern]) => pattern.test(text))?.[0];
}

function watchKafka(): void {
  const { Kafka } = require("kafkajs") as typeof kafkajs;
  const { producer, consumer } = Kafka.prototype;
  Kafka.prototype.producer = function watched(config) {
    const made = producer.call(this, config);
    const { send } = made;
    made.send = (record: { topic: string; messages: Message[] }) =>
      around(record.topic.includes("audit") ? "history is sent" : "relay publishes", () => send(record));
    return made;
  };
  Kafka.prototype.consumer = function watched(config) {
    const made = consumer.call(this, config);
    const { commitOffsets } = made;
    made.commitOffsets = (offsets) => around("consumer commits its offset", () => commitOffsets(offsets));
    return made;
  };
}

/** Only the dispatcher makes HTTP requests. */
function watchRequests(): void {
  if (step !== "dispatcher sends") return;
  subscribe(side === "before" ? "http.client.request.created" : "http.client.response.finish", die);
}

if (step !== "") {
  watchStatements();
  watchKafka();
  watchRequests();
}
