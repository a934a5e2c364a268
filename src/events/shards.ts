import type { Database } from "../db/database.ts";
import { OUTBOX_SHARDS } from "./outbox.ts";

/** Seconds after which a shard's lease expires unless its worker renews it. */
export const LEASE_SECONDS = 15;
/** Seconds between renewals of the leases. */
export const RENEW_SECONDS = 5;

/** The shards of the outbox that one worker relays. All times are the database's. */
export type ShardLeases = {
  /** Renews the leases, and takes free shards up to the worker's share. */
  renew(): Promise<void>;
  /** Releases shards that exceed the worker's share. Call it between batches. */
  dropSurplus(): Promise<void>;
  /** Releases all shards, so that other workers need not wait until the leases expire. */
  release(): Promise<void>;
};

/** Counts the live workers, and the shards that no worker owns. */
export async function readWorkers(database: Database): Promise<{ living: number; free: number }> {
  const { rows } = await database.raw(
    `select (select count(*) from relay_workers where alive_until > now()) as living,
            (select count(*) from relay_shards where held_until < now()) as free`,
  );
  return rows[0];
}

/**
 * Creates the leases of a worker. Each start of a worker needs a new `workerId`. Taking a shard increases its
 * epoch, so that a worker that lost its lease can delete no events.
 */
export function createShardLeases(
  database: Database,
  workerId: string,
  seconds = LEASE_SECONDS,
): ShardLeases {
  const bindings = { id: workerId, seconds };
  let surplus = 0;

  async function take(count: number): Promise<void> {
    await database.raw(
      `update relay_shards s set owner = :id, epoch = s.epoch + 1, held_until = now() + make_interval(secs => :seconds)
       from (select shard from relay_shards where held_until < now() order by random() limit :count for update skip locked) free
       where s.shard = free.shard`,
      { ...bindings, count },
    );
  }

  return {
    async renew() {
      await database.raw(
        `insert into relay_workers values (:id, now() + make_interval(secs => :seconds))
         on conflict (worker_id) do update set alive_until = excluded.alive_until`,
        bindings,
      );
      const { rows } = await database.raw(
        `with renewed as (
           update relay_shards set held_until = now() + make_interval(secs => :seconds) where owner = :id returning shard)
         select (select count(*) from renewed) as held,
                (select count(*) from relay_workers where alive_until > now()) as workers`,
        bindings,
      );
      const { held, workers } = rows[0];
      const share = Math.ceil(OUTBOX_SHARDS / workers);
      surplus = Math.max(0, held - share);
      if (held < share) await take(share - held);
    },
    async dropSurplus() {
      if (surplus === 0) return;
      await database.raw(
        `update relay_shards set owner = null, held_until = '-infinity' where shard in
           (select shard from relay_shards where owner = :id order by shard limit :surplus)`,
        { id: workerId, surplus },
      );
      surplus = 0;
    },
    async release() {
      surplus = 0;
      await database.raw(
        `with freed as (
           update relay_shards set owner = null, held_until = '-infinity' where owner = :id)
         delete from relay_workers where worker_id = :id`,
        bindings,
      );
    },
  };
}
