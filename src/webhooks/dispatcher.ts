import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { isAway } from "../db/errors.ts";
import type { AttemptResult } from "../events/event_metrics.ts";
import {
  deliveryBodyContext,
  webhookFormerSecretContext,
  webhookNextSecretContext,
  webhookSecretContext,
} from "../events/secrets.ts";
import type { Logger } from "../log.ts";
import type { SecretBox } from "../secret_box.ts";
import { type BoxedSecrets, type Claimed, claimDeliveries, readSecrets } from "./claim.ts";
import { type Attempted, recordAttempt, releaseDelivery } from "./record_attempt.ts";
import { resultOf, type Sent } from "./retries_and_suspension.ts";
import { type Send, signedHeaders } from "./sign_and_send.ts";

/**
 * Dependencies of a dispatcher. `word` is a part of header names, such as `X-Service-Signature` for
 * `service`. `random` is uniform in [0, 1).
 */
export type DispatcherDeps = {
  database: Database;
  clock: Clock;
  secretBox: SecretBox;
  send: Send;
  word: string;
  log: Logger;
  random?: () => number;
  /** The maximum number of concurrent requests. */
  limit?: number;
  claimSeconds?: number;
  measure?: (verdict: AttemptResult, seconds: number) => void;
  /** Called after each finished delivery, when there is capacity for a new delivery. */
  finished?: () => void;
};

/** Sends deliveries that are due. */
export type Dispatcher = {
  /** Claims due deliveries for the free capacity, and starts sending them. Returns whether it claimed any. */
  step(): Promise<boolean>;
  /** Resolves when no request is running and every result is written. */
  drain(): Promise<void>;
};

const LIMIT = 256;
const WRITE_PAUSE = 100;

/** Creates a dispatcher. If the database fails, it retries writing a result until the claim expires. */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const {
    database,
    clock,
    log,
    random = Math.random,
    limit = LIMIT,
    claimSeconds,
    finished = () => {},
  } = deps;
  const running = new Set<Promise<void>>();

  async function write(delivery: Claimed, work: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await work();
        return;
      } catch (error) {
        if (!isAway(error) || clock.now() >= delivery.lease_until) throw error;
        await sleep(WRITE_PAUSE);
      }
    }
  }

  async function attempt(delivery: Claimed): Promise<void> {
    const startedAt = clock.now();
    const url = delivery.callback_url;
    if (url === null) return write(delivery, () => releaseDelivery(database, delivery, startedAt));
    const sent = await request(deps, delivery, url);
    const attempted = { delivery, sent, startedAt, endedAt: clock.now(), random: random() };
    await write(delivery, () => record(attempted));
  }

  async function record(attempted: Attempted): Promise<void> {
    const recorded = await recordAttempt(database, attempted);
    const { delivery_id, endpoint_id } = attempted.delivery;
    const seconds = (attempted.endedAt.getTime() - attempted.startedAt.getTime()) / 1000;
    deps.measure?.(recorded === "stale" ? resultOf(attempted.sent) : recorded.verdict, seconds);
    if (recorded === "stale") return log.warn({ delivery_id }, "a result came after its claim had ended");
    if (recorded.suspended) log.warn({ endpoint_id }, "webhook endpoint suspended");
  }

  async function run(delivery: Claimed): Promise<void> {
    try {
      await attempt(delivery);
    } catch (error) {
      log.error({ err: error, delivery_id: delivery.delivery_id }, "a result could not be written");
    }
  }

  function start(delivery: Claimed): void {
    const work = run(delivery).then(() => {
      running.delete(work);
      finished();
    });
    running.add(work);
  }

  return {
    async step() {
      const free = limit - running.size;
      if (free <= 0) return false;
      const claimed = await claimDeliveries(database, free, clock.now(), claimSeconds);
      for (const delivery of claimed) start(delivery);
      return claimed.length > 0;
    },
    async drain() {
      while (running.size > 0) await Promise.all(running);
    },
  };
}

async function request(deps: DispatcherDeps, delivery: Claimed, url: string): Promise<Sent> {
  const { secretBox, send, clock, word, log } = deps;
  const deliveryId = delivery.delivery_id;
  try {
    const body = openBody(secretBox, delivery);
    const sign = ([first, ...others]: readonly [string, ...string[]]) =>
      signedHeaders({ deliveryId, body }, first, clock.now(), word, others);
    const secrets = openSecrets(secretBox, delivery, clock.now());
    const otherHeaders = async () => {
      const others = await otherSecrets(deps, delivery, secrets[0]);
      return others && sign(others);
    };
    return await send({ url, headers: sign(secrets), body, otherHeaders });
  } catch {
    log.error({ delivery_id: deliveryId }, "a sealed value of a delivery cannot be opened");
    return { fault: "unprepared", detail: "internal" };
  }
}

/** Returns the current secret, the next one if it exists, and the former one during its grace period. */
function openSecrets(secretBox: SecretBox, boxed: BoxedSecrets, now: Date): [string, ...string[]] {
  const { connection_id: id, webhook_former_until: until } = boxed;
  const former = until !== null && now < until ? boxed.webhook_former_secret_sealed : null;
  const next = boxed.webhook_next_secret_sealed;
  return [
    secretBox.unbox(boxed.webhook_secret_sealed, webhookSecretContext(id)),
    ...(next === null ? [] : [secretBox.unbox(next, webhookNextSecretContext(id))]),
    ...(former === null ? [] : [secretBox.unbox(former, webhookFormerSecretContext(id))]),
  ];
}

/**
 * Returns the secrets other than `used`, which the receiver refused. Reads them again, because `used` may
 * have been replaced meanwhile. If reading fails, uses the secrets of the claim. Returns `undefined` if there
 * is no other secret.
 */
async function otherSecrets(
  { database, secretBox, clock }: DispatcherDeps,
  delivery: Claimed,
  used: string,
): Promise<[string, ...string[]] | undefined> {
  const boxed = (await readSecrets(database, delivery.connection_id).catch(() => undefined)) ?? delivery;
  const secrets = openSecrets(secretBox, boxed, clock.now());
  const other = secrets.find((secret) => secret !== used);
  return other === undefined ? undefined : [other, ...secrets.filter((secret) => secret !== other)];
}

function openBody(secretBox: SecretBox, delivery: Claimed): string {
  if (delivery.body !== null) return delivery.body;
  if (delivery.body_sealed === null) throw new Error("The delivery has no body");
  return secretBox.unbox(delivery.body_sealed, deliveryBodyContext(delivery.delivery_id));
}
