import { randomUUID } from "node:crypto";
import { createReconciliation } from "./accounts/ledger/reconcile.ts";
import { createNoticeConsumer } from "./accounts/notices/queue.ts";
import { postToChannels } from "./channels/post.ts";
import type { ComparedClock } from "./clock.ts";
import { type Loop, startLoop } from "./concurrency/loop.ts";
import { StartError, type WorkerConfig } from "./config.ts";
import { openDatabase } from "./db/database.ts";
import { readSchemaState } from "./db/migrate.ts";
import { watchPrimary } from "./db/primary.ts";
import { adoptCarrier, checkCarrier, type EventCarrier, embeddedCarrier } from "./events/carrier.ts";
import { createEventMetrics } from "./events/event_metrics.ts";
import { eventStates, readOutbox } from "./events/event_states.ts";
import { createMeasurements, MEASURE_SECONDS } from "./events/measurements.ts";
import { createRelay } from "./events/relay.ts";
import { removeOld } from "./events/retention.ts";
import { createShardLeases, LEASE_SECONDS, RENEW_SECONDS } from "./events/shards.ts";
import { directUrlOf } from "./input/database_url.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { stepEnds } from "./platforms/connections/end_connections.ts";
import { createSecretBox } from "./secret_box.ts";
import { createAddressPolicy, createResolve } from "./webhooks/callback_address.ts";
import { CLAIM_SECONDS, reapLost } from "./webhooks/claim.ts";
import { createWebhookConsumer } from "./webhooks/consumer.ts";
import { createDispatcher } from "./webhooks/dispatcher.ts";
import { stepBacklogs } from "./webhooks/endpoint.ts";
import { stepRecovery } from "./webhooks/resend_and_recover.ts";
import { createSender } from "./webhooks/sign_and_send.ts";

/**
 * Seconds for which a dead worker's outbox shards (`leaseSeconds`) and deliveries (`claimSeconds`) stay
 * reserved, and the interval at which workers search for lost deliveries.
 */
export type WorkerTiming = { leaseSeconds: number; claimSeconds: number; reapSeconds: number };

/** Dependencies of the worker role. */
export type WorkerDeps = {
  config: Pick<
    WorkerConfig,
    | "DATABASE_URL"
    | "DATABASE_DIRECT_URL"
    | "DATABASE_POOL_SIZE"
    | "SEALING_KEY"
    | "SERVICE_WORD"
    | "DEVELOPMENT"
    | "WEBHOOK_ALLOWED_CIDRS"
  >;
  /** The carrier of events. By default, the worker itself delivers events. */
  carrier?: EventCarrier;
  /** Called for an error from which the worker cannot recover. The function must exit the process. */
  fatal?: (error: Error) => void;
  clock: ComparedClock;
  log: Logger;
  metrics?: Pick<Metrics, "registry">;
  timing?: WorkerTiming;
};

/** The state of the outbox. `events_waiting` counts to at most 100,000. `oldest_event_age` is in seconds. */
export type WorkerHealth = { ok: boolean; events_waiting: number; oldest_event_age: number };

export type Worker = {
  /** Starts the relay immediately. Call it when this process has appended an event. */
  wake(): void;
  /** Rejects if the database does not answer. */
  health(): Promise<WorkerHealth>;
  /** Accepts no new work, finishes running work (an attempt takes up to 15 s), and releases its shards. */
  stop(): Promise<void>;
};

const TIMING: WorkerTiming = { leaseSeconds: LEASE_SECONDS, claimSeconds: CLAIM_SECONDS, reapSeconds: 5 };
const IDLE_TRANSACTION_MS = 10_000;
/** Limit for a silent database: longer than any statement takes, including the sums of the reconciliation. */
const SILENCE_MS = 120_000;
const CLEAN_SECONDS = 60 * 60;
const RECONCILE_SECONDS = 60 * 60;
const POST_SECONDS = 5;

/**
 * Starts the outbox relay, webhook delivery, and the recovery of lost deliveries. Also creates the notices to
 * account owners, which the API sends by email, and ends connections that were removed with many others.
 * Starts even if no other part is running, and retries until the database responds. While the clock
 * disagrees, it deletes nothing. Workers divide the work. Throws if a setting is malformed.
 */
export function startWorker({ config, clock, log, metrics, timing = TIMING, ...deps }: WorkerDeps): Worker {
  const { carrier = embeddedCarrier, fatal } = deps;
  const onError = (error: Error) => log.debug({ err: error }, "database connection lost");
  const primary = watchPrimary({ url: directUrlOf(config), log });
  const database = openDatabase({
    url: config.DATABASE_URL,
    keepsSession: directUrlOf(config) === config.DATABASE_URL,
    opened: primary.opened,
    name: "deputize-worker",
    max: config.DATABASE_POOL_SIZE - 1,
    idleTransactionMs: IDLE_TRANSACTION_MS,
    silenceMs: SILENCE_MS,
    onError,
  });
  const secretBox = createSecretBox(Buffer.from(config.SEALING_KEY, "base64"));
  const measure = metrics && createEventMetrics({ ...metrics, clock });
  const measurements = metrics && createMeasurements({ ...metrics, clock, log });
  const workerId = randomUUID();
  const leases = createShardLeases(database, workerId, timing.leaseSeconds);
  const { leaseSeconds } = timing;
  const bus = carrier.open({ database, clock, log, workerId, leaseSeconds, measure, measurements });
  const relay = createRelay({ database, bus, clock, workerId, carrier: carrier.kind, measure });
  const policy = createAddressPolicy({
    development: config.DEVELOPMENT,
    allowedCidrs: config.WEBHOOK_ALLOWED_CIDRS,
  });
  const wakeSending = () => sending.wake();
  const send = createSender({ policy, resolve: createResolve() });
  const dispatcher = createDispatcher({
    database,
    clock,
    secretBox,
    send,
    word: config.SERVICE_WORD,
    log,
    claimSeconds: timing.claimSeconds,
    finished: wakeSending,
    ...(measure && { measure: measure.attempt }),
  });
  const consumers = [
    createWebhookConsumer({ secretBox, clock, created: wakeSending }),
    createNoticeConsumer({ clock }),
  ];
  for (const { name } of consumers) measure?.consumed(name, [], 0);
  for (const state of eventStates(database, consumers)) measurements?.add(state);
  const unprepared = [
    () => adoptCarrier(database, carrier, consumers),
    ...consumers.map((consumer) => () => bus.subscribe(consumer)),
    () => leases.renew(),
  ];
  async function prepare(): Promise<void> {
    for (let [next] = unprepared; next !== undefined; [next] = unprepared) {
      await next();
      unprepared.shift();
    }
  }

  /** Runs `work`. Stops this worker if another worker has selected a different event carrier. */
  async function endingOnCarrierChange(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (error instanceof StartError) fatal?.(error);
      throw error;
    }
  }

  /** Repeats `step` every `seconds` seconds, and immediately while it finds work. */
  const every = (seconds: number, name: string, step: () => Promise<boolean>): Loop =>
    startLoop({ name, log, step, shortestPause: seconds * 1000, longestPause: seconds * 1000 });

  const relaying = startLoop({
    name: "relay",
    log,
    async step() {
      await endingOnCarrierChange(prepare);
      await leases.dropSurplus();
      return relay.step();
    },
  });
  const sending = startLoop({ name: "webhooks", log, step: dispatcher.step });
  const posting = every(POST_SECONDS, "messages to channels", () =>
    postToChannels({ database, clock, secretBox, send, log }),
  );
  const reaping = every(timing.reapSeconds, "lost deliveries", async () => {
    // Also while the clocks disagree: an early second attempt has the same id, but a claim that never ends
    // holds back all later events of its endpoint.
    if ((await reapLost(database, clock.now(), timing.claimSeconds)) > 0) wakeSending();
    return false;
  });
  const movingBacklogs = startLoop({
    name: "backlogs",
    log,
    async step() {
      const moved = await stepBacklogs({ database, clock });
      if (moved) wakeSending();
      return moved;
    },
  });
  const recovering = startLoop({
    name: "recoveries",
    log,
    async step() {
      const stepped = await stepRecovery({ database, clock });
      if (stepped) wakeSending();
      return stepped;
    },
  });
  const ending = startLoop({
    name: "removed connections",
    log,
    step: () => stepEnds({ database, secretBox, log }),
  });
  const cleaning = every(CLEAN_SECONDS, "retention", async () => {
    const now = clock.agreed();
    return now !== undefined && removeOld(database, now);
  });
  const reconcile = createReconciliation({ database, clock, log, metrics });
  const reconciling = every(RECONCILE_SECONDS, "reconciliation", async () => {
    await reconcile();
    return false;
  });
  const leasing = every((timing.leaseSeconds / LEASE_SECONDS) * RENEW_SECONDS, "shard leases", async () => {
    // Reserves shards only after all preparations, because a worker may be refused at every start.
    if (unprepared.length > 0) return false;
    await leases.renew();
    await endingOnCarrierChange(() => checkCarrier(database, carrier));
    return false;
  });
  const measuring = every(MEASURE_SECONDS, "measurements", async () => {
    await measurements?.read();
    return false;
  });

  return {
    wake: relaying.wake,
    async health() {
      const { events, oldestSeconds } = await readOutbox(database, clock.now());
      const hasSchema = (await readSchemaState(database)).kind === "usable";
      return {
        ok: hasSchema && (await primary.isWritable()) && (await bus.health()).ok,
        events_waiting: events,
        oldest_event_age: oldestSeconds,
      };
    },
    async stop() {
      await Promise.all(
        [
          relaying,
          sending,
          posting,
          reaping,
          movingBacklogs,
          recovering,
          ending,
          cleaning,
          reconciling,
          measuring,
        ].map((loop) => loop.stop()),
      );
      await bus.close();
      await dispatcher.drain();
      await leasing.stop();
      await leases.release().catch((error) => log.warn({ err: error }, "shards not released"));
      await primary.stop();
      await database.destroy();
    },
  };
}
