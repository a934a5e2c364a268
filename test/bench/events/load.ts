import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../../../src/db/database.ts";
import { appendEvents, OUTBOX_SHARDS } from "../../../src/events/outbox.ts";
import { makeConnection, secretBox, type TestConnection } from "../../events/support/connection.ts";
import { deniedEvent } from "../../events/support/events.ts";

/** Milliseconds since 1970, with fractions. All processes on a machine share this clock. */
export const nowMs = (): number => performance.timeOrigin + performance.now();

/** Creates connections, with the given callback URLs or without any. */
export async function makeConnections(
  db: Database,
  callbackUrls: readonly (string | null)[],
): Promise<TestConnection[]> {
  return Promise.all(callbackUrls.map((url) => makeConnection(db, url)));
}

/** Maximum number of concurrent transactions. A machine that is too slow falls behind. */
const MOST_RUNNING = 64;

/** Transactions at a fixed rate. Each transaction has several events of one connection. */
export type Load = {
  db: Database;
  connections: readonly TestConnection[];
  transactions: number;
  transactionsPerSecond: number;
  eventsEach: number;
  /** The number of the first event. An event's number is its request id. */
  firstNumber?: number;
};

/** Commit time of each event, by event number. */
export type Committed = Map<number, number>;

/** Appends events at a steady rate. After a delay it catches up, so the average rate is constant. */
export async function runLoad(load: Load): Promise<Committed> {
  const { db, connections, transactions, transactionsPerSecond, eventsEach, firstNumber = 0 } = load;
  const committed: Committed = new Map();
  const running = new Set<Promise<void>>();
  const startedAt = nowMs();
  let started = 0;

  async function append(nth: number): Promise<void> {
    const connection = connections[nth % connections.length] as TestConnection;
    const numbers = Array.from({ length: eventsEach }, (_, n) => firstNumber + nth * eventsEach + n);
    const events = numbers.map((number) => deniedEvent(connection, String(number)));
    await db.transaction((tx) => appendEvents(tx, secretBox, events, new Date()));
    const at = nowMs();
    for (const number of numbers) committed.set(number, at);
  }

  while (started < transactions) {
    const due = Math.min(((nowMs() - startedAt) / 1000) * transactionsPerSecond, transactions);
    for (; started < due && running.size < MOST_RUNNING; started += 1) {
      const work = append(started).finally(() => running.delete(work));
      running.add(work);
    }
    await sleep(2);
  }
  await Promise.all(running);
  return committed;
}

/** Fills the outbox with events that alternate between connections, as a long relay failure does. */
export async function fillOutbox(
  db: Database,
  connections: readonly TestConnection[],
  events: number,
): Promise<void> {
  await db.raw(
    `with target as (
       select id, account, place - 1 as place
       from unnest(cast(:ids as text[]), cast(:accounts as text[])) with ordinality as c (id, account, place)
     ), numbered as (
       update connections c set next_event_seq = c.next_event_seq + :each
       from target where c.connection_id = cast(target.id as uuid)
       returning target.*, c.next_event_seq - :each as first_seq
     )
     insert into outbox (event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload,
                         headers, created_at)
     select gen_random_uuid(), 'connection', id, first_seq + n, 'delegation.denied', 1, place % ${OUTBOX_SHARDS},
            json_build_object('event', 'delegation.denied', 'request_id', (n * :count + place)::text,
                              'connection_id', id, 'org_id', account, 'agent_id', 'agent-1')::text,
            '{}', now()
     from numbered cross join generate_series(0, :each - 1) n order by n, place`,
    {
      ids: connections.map(({ connectionId }) => connectionId),
      accounts: connections.map(({ accountId }) => accountId),
      each: Math.floor(events / connections.length),
      count: connections.length,
    },
  );
  await db.raw("analyze outbox");
}
