import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { WorkerConfig } from "../config.ts";
import { openDatabase } from "../db/connection.ts";
import type { Logger } from "../log.ts";
import { createSeal } from "../seal.ts";
import { createLocalBus } from "./local_bus.ts";
import { startLoop } from "./loop.ts";
import { createRelay } from "./relay.ts";
import { removeOld } from "./retention.ts";
import { createShardLeases, LEASE_SECONDS, RENEW_SECONDS } from "./shards.ts";
import { createAddressPolicy } from "./webhooks/addresses.ts";
import { CLAIM_SECONDS } from "./webhooks/claim.ts";
import { createWebhookConsumer } from "./webhooks/consumer.ts";
import { createDispatcher } from "./webhooks/dispatcher.ts";
import { reapLost } from "./webhooks/reap.ts";
import { createResolve } from "./webhooks/resolve.ts";
import { createSender } from "./webhooks/send.ts";

/** How long what a worker holds stays its own when it dies, and how often others look for it. */
export type WorkerTiming = { leaseSeconds: number; claimSeconds: number; reapSeconds: number };

/** What the worker role is made of. */
export type WorkerDeps = {
  config: Pick<
    WorkerConfig,
    "DATABASE_URL" | "SEALING_KEY" | "SERVICE_WORD" | "DEVELOPMENT" | "WEBHOOK_ALLOWED_CIDRS"
  >;
  clock: Clock;
  log: Logger;
  timing?: WorkerTiming;
};

/** How the events are doing. Ages are seconds. */
export type WorkerHealth = { ok: boolean; events_waiting: number; oldest_event_age: number };

/** The running worker role. */
export type Worker = {
  /** An event was appended in this process: relay it without waiting for the next poll. */
  wake(): void;
  /** Rejects when the database does not answer. */
  health(): Promise<WorkerHealth>;
  /** Takes nothing new, finishes what is under way (an attempt takes up to 15 s), gives its shards to others. */
  stop(): Promise<void>;
};

const TIMING: WorkerTiming = { leaseSeconds: LEASE_SECONDS, claimSeconds: CLAIM_SECONDS, reapSeconds: 5 };
const IDLE_TRANSACTION_MS = 10_000;
const CLEAN_MILLISECONDS = 60 * 60 * 1000;

/**
 * Starts the relay of the outbox and the delivery of webhooks. It needs no other part to be up, not even the database:
 * it goes on trying. Any number of workers may run; they divide the work. Throws on a malformed setting.
 */
export function startWorker({ config, clock, log, timing = TIMING }: WorkerDeps): Worker {
  const onError = (error: Error) => log.debug({ err: error }, "database connection lost");
  const database = openDatabase({
    url: config.DATABASE_URL,
    name: "deputize-worker",
    max: 16,
    idleTransactionMs: IDLE_TRANSACTION_MS,
    onError,
  });
  const seal = createSeal(Buffer.from(config.SEALING_KEY, "base64"));
  const workerId = randomUUID();
  const leases = createShardLeases(database, workerId, timing.leaseSeconds);
  const bus = createLocalBus({ database, clock, log });
  const relay = createRelay({ database, bus, clock, workerId });
  const policy = createAddressPolicy({
    development: config.DEVELOPMENT,
    allowedCidrs: config.WEBHOOK_ALLOWED_CIDRS,
  });
  const dispatcher = createDispatcher({
    database,
    clock,
    seal,
    send: createSender({ policy, resolve: createResolve() }),
    word: config.SERVICE_WORD,
    log,
    claimSeconds: timing.claimSeconds,
    finished: () => sending.wake(),
  });
  const subscribed = bus.subscribe(createWebhookConsumer({ seal, clock, created: () => sending.wake() }));

  const renewal = (timing.leaseSeconds / LEASE_SECONDS) * RENEW_SECONDS * 1000;
  const leasing = startLoop({
    name: "shard leases",
    log,
    shortestPause: renewal,
    longestPause: renewal,
    async step() {
      await leases.renew();
      return false;
    },
  });
  const relaying = startLoop({
    name: "relay",
    log,
    async step() {
      await subscribed;
      await leases.dropSurplus();
      return relay.step();
    },
  });
  const sending = startLoop({ name: "webhooks", log, step: dispatcher.step });
  const reaping = startLoop({
    name: "lost deliveries",
    log,
    shortestPause: timing.reapSeconds * 1000,
    longestPause: timing.reapSeconds * 1000,
    async step() {
      if ((await reapLost(database, clock.now(), timing.claimSeconds)) > 0) sending.wake();
      return false;
    },
  });
  const cleaning = startLoop({
    name: "retention",
    log,
    shortestPause: CLEAN_MILLISECONDS,
    longestPause: CLEAN_MILLISECONDS,
    step: () => removeOld(database, clock.now()),
  });

  return {
    wake: relaying.wake,
    async health() {
      const { rows } = await database.raw(
        "select count(*) as waiting, min(created_at) as oldest from outbox",
      );
      const { waiting, oldest } = rows[0] as { waiting: number; oldest: Date | null };
      const age = oldest === null ? 0 : Math.max(0, (clock.now().getTime() - oldest.getTime()) / 1000);
      return { ok: (await bus.health()).ok, events_waiting: waiting, oldest_event_age: age };
    },
    async stop() {
      await Promise.all([relaying, sending, reaping, cleaning].map((loop) => loop.stop()));
      await bus.close();
      await dispatcher.drain();
      await leasing.stop();
      await leases.release().catch((error) => log.warn({ err: error }, "shards not given up"));
      await database.destroy();
    },
  };
}
