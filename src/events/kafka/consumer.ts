import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer as Client, EachBatchPayload, Kafka, KafkaMessage } from "kafkajs";
import { v5 as uuidv5 } from "uuid";
import { type Loop, startLoop } from "../../concurrency/loop.ts";
import { isAway } from "../../db/errors.ts";
import type { BusEvent, Consumer } from "../bus.ts";
import { type ConsumeDeps, consume } from "../consume.ts";
import { type Origin, putAside, UNREADABLE } from "../dead_letters.ts";
import { type Batcher, createBatcher } from "./batcher.ts";
import { createWatchdog, keepMembership, type Membership } from "./membership.ts";
import { commitOffsets, type Offsets } from "./offsets.ts";
import { readRecord, UnreadableRecord } from "./records.ts";

/** Dependencies of a Kafka reader. `fatal` receives errors after which the library does not continue. */
export type KafkaConsumerDeps = ConsumeDeps & {
  client: Kafka;
  /** Seconds that a process may be silent. The session timeout is twice as long, and at least 6 s. */
  leaseSeconds: number;
  /** Rejects if Kafka does not answer a request. */
  answers(): Promise<void>;
  fatal(error: Error): void;
};

/** The topic to read, and the consumer group. */
export type Subscription = { topic: string; groupId: string };

/** A running Kafka reader. */
export type KafkaConsumer = { close(): Promise<void> };

/** The shortest session timeout that brokers accept, in milliseconds. */
const SHORTEST_SESSION_MS = 6_000;
const HEARTBEATS = 10;
/** Heartbeats until a new member has joined. The other members notice it with their next heartbeat. */
const BEATS_TO_JOIN = 2;
/** The maximum number of events in one transaction. */
const MOST = 500;
const DATABASE_AWAY_MS = 1_000;
/** The number of partitions that are handled concurrently: usually all partitions of a topic. */
const PARTITIONS_AT_ONCE = 16;
const WATCH_MS = 10_000;
/** The namespace for the ids of unreadable records. */
const UNREADABLE_SPACE = "6f0d3a52-4a55-4c0f-9a51-0c3a1f4d8b27";
const UNREADABLE_BYTES = 64 * 1024;

/**
 * Starts a consumer on the records of a topic. Commits an offset only after the database has committed, so a
 * record may arrive again, but none is lost. While the database is unavailable, the partition waits. If Kafka
 * cannot be reached, cleans up and rejects.
 */
export async function startKafkaConsumer(
  deps: KafkaConsumerDeps,
  consumer: Consumer,
  { topic, groupId }: Subscription,
): Promise<KafkaConsumer> {
  const state = { isClosed: false };
  const sessionMs = Math.max(SHORTEST_SESSION_MS, 2 * deps.leaseSeconds * 1_000);
  const beatMs = sessionMs / HEARTBEATS;
  const reader = deps.client.consumer({
    groupId,
    sessionTimeout: sessionMs,
    heartbeatInterval: beatMs,
    maxWaitTimeInMs: 250,
    allowAutoTopicCreation: false,
    retry: {
      initialRetryTime: 200,
      maxRetryTime: 5_000,
      retries: 10,
      restartOnFailure: async () => !state.isClosed,
    },
  });
  const waiting = new Set<NodeJS.Timeout>();
  const watchdog = watch(reader, deps, consumer.name, state);
  const origins = new WeakMap<BusEvent, Origin>();
  const batcher = createBatcher<BusEvent>(
    (events) => consume(deps, consumer, events, (event) => origins.get(event)),
    MOST,
  );
  const handling: Handling = {
    deps,
    consumer,
    origins,
    waiting,
    batcher,
    membership: keepMembership({ clock: deps.clock, beatMs: beatMs / 2, left: batcher.rejectWaiting }),
    offsets: commitOffsets(reader, deps.log, consumer.name),
  };
  closeAgain(reader, state);
  try {
    await reader.connect();
    await reader.subscribe({ topics: [topic], fromBeginning: true });
  } catch (error) {
    state.isClosed = true;
    await Promise.allSettled([watchdog.stop(), handling.offsets.close(), reader.disconnect()]);
    throw error;
  }
  // Does not wait until the group accepts the reader. If a member died, the group accepts no reader until it
  // gives up that member.
  const running = reader.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    partitionsConsumedConcurrently: PARTITIONS_AT_ONCE,
    async eachBatch(payload) {
      if (state.isClosed) return;
      await handling.membership
        .during(payload.heartbeat, () =>
          handleBatch(handling, { ...payload, isRunning: () => !state.isClosed && payload.isRunning() }),
        )
        .catch((error: unknown) => {
          if (!state.isClosed) throw error;
        });
    },
  });
  const joined = running.catch((error: Error) => {
    if (!state.isClosed) deps.fatal(error);
  });
  return {
    async close() {
      state.isClosed = true;
      batcher.rejectWaiting(new Error("the reader ends"));
      await watchdog.stop();
      for (const timer of waiting) clearTimeout(timer);
      await handling.offsets.close();
      // A member that has not joined yet cannot leave, and would keep its partitions until its session ends.
      await Promise.race([joined, sleep(BEATS_TO_JOIN * beatMs, undefined, { ref: false })]);
      await reader.disconnect();
    },
  };
}

/** Closes a reader again, because a reader that is closed during a restart by the library starts anyway. */
function closeAgain(reader: Client, state: { isClosed: boolean }): void {
  const { FETCH, HEARTBEAT } = reader.events;
  const close = () => {
    if (state.isClosed) reader.disconnect().catch(() => undefined);
  };
  for (const event of [FETCH, HEARTBEAT]) reader.on(event, close);
}

type Handling = {
  deps: KafkaConsumerDeps;
  consumer: Consumer;
  origins: WeakMap<BusEvent, Origin>;
  /** Timers that resume partitions after the database was unavailable. */
  waiting: Set<NodeJS.Timeout>;
  batcher: Batcher<BusEvent>;
  membership: Membership;
  offsets: Offsets;
};

async function handleBatch(handling: Handling, payload: EachBatchPayload): Promise<void> {
  const { deps, consumer, offsets, membership, waiting } = handling;
  const { batch, resolveOffset, isRunning, isStale } = payload;
  const { topic, partition, messages } = batch;
  for (let from = 0; from < messages.length; from += MOST) {
    if (!isRunning() || isStale()) return;
    const chunk = messages.slice(from, from + MOST);
    try {
      await handleChunk(handling, { topic, partition }, chunk);
    } catch (error) {
      if (membership.isReason(error) || !isAway(error)) throw error;
      deps.log.warn(
        { consumer: consumer.name, err: error },
        "the database is unavailable; reading from Kafka pauses",
      );
      deps.measure?.paused(consumer.name);
      resumeLater(payload.pause(), waiting);
      return;
    }
    const last = chunk.at(-1)?.offset ?? "0";
    resolveOffset(last);
    offsets.handled({ topic, partition }, last);
    await membership.progress();
  }
}

function resumeLater(resume: () => void, waiting: Set<NodeJS.Timeout>): void {
  const timer = setTimeout(() => {
    waiting.delete(timer);
    resume();
  }, DATABASE_AWAY_MS);
  waiting.add(timer);
}

/** Stores an unreadable record as a dead letter too, because its author may want to know. */
async function handleChunk(
  { deps, consumer, origins, membership, batcher }: Handling,
  place: { topic: string; partition: number },
  chunk: readonly KafkaMessage[],
): Promise<void> {
  const events: BusEvent[] = [];
  for (const message of chunk) {
    const origin = { ...place, offset: message.offset };
    try {
      const event = readRecord(message);
      origins.set(event, origin);
      events.push(event);
    } catch (error) {
      if (!(error instanceof UnreadableRecord)) throw error;
      deps.log.error({ consumer: consumer.name, ...origin, reason: error.message }, "record put aside");
      await putAside(deps, consumer, unreadable(origin, message), { reason: error.message, origin });
    }
  }
  membership.stay();
  await batcher.work(events);
}

/** Represents an unreadable record as an event. The same record always gets the same id. */
function unreadable({ topic, partition, offset }: Origin, { value, timestamp }: KafkaMessage): BusEvent {
  return {
    eventId: uuidv5(`${topic}/${partition}/${offset}`, UNREADABLE_SPACE),
    type: UNREADABLE,
    aggregateType: UNREADABLE,
    aggregateId: topic,
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: value?.subarray(0, UNREADABLE_BYTES).toString("utf8") ?? "",
    headers: {},
    createdAt: new Date(Number(timestamp)),
  };
}

/** The library restarts the reader after some errors. After others, the reader stays silent forever. */
function watch(
  reader: Client,
  deps: KafkaConsumerDeps,
  name: string,
  state: { isClosed: boolean },
): Pick<Loop, "stop"> {
  const { answers, clock, fatal, log, measure } = deps;
  const { CRASH, FETCH, GROUP_JOIN, HEARTBEAT } = reader.events;
  reader.on(CRASH, ({ payload }) => {
    if (!payload.restart && !state.isClosed) fatal(payload.error);
  });
  const watchdog = createWatchdog({ name, clock, answers, fatal });
  for (const event of [FETCH, GROUP_JOIN, HEARTBEAT]) reader.on(event, () => watchdog.sign());
  const unwatch = measure?.watches(name, watchdog.silentSeconds);
  const watching = startLoop({
    name: `watchdog of ${name}`,
    log,
    shortestPause: WATCH_MS,
    longestPause: WATCH_MS,
    async step() {
      await watchdog.check();
      return false;
    },
  });
  return {
    async stop() {
      unwatch?.();
      await watching.stop();
    },
  };
}
