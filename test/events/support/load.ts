import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import type { TestConnection } from "./connection.ts";
import { append, deniedEvent } from "./events.ts";
import type { Receiver } from "./receiver.ts";

/** Creates a generator of numbers in [0, 1). The same seed gives the same numbers. */
export function chances(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns the seed of this run, from SEED or a new one, and prints it. */
export function printedSeed(): number {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`SEED=${seed}`);
  return seed;
}

/** Request ids, by the result of the attempt to append the event. */
export type Ledger = { committed: string[]; rolledBack: string[]; unknown: string[] };

/**
 * Appends events until it is stopped, some of them in transactions that are rolled back. Pauses while
 * `mayAppend` returns false.
 */
export function startLoad(
  database: Database,
  connections: TestConnection[],
  chance: () => number,
  ledger: Ledger = { committed: [], rolledBack: [], unknown: [] },
  mayAppend: () => boolean = () => true,
) {
  let stopped = false;

  async function appendOne(): Promise<void> {
    const id = randomUUID();
    const event = deniedEvent(connections[Math.floor(chance() * connections.length)]!, id);
    if (chance() < 0.1) {
      const undone = database.transaction(async (tx) => {
        await append(tx, event);
        throw new Error("undone");
      });
      ledger.rolledBack.push(id);
      return undone.then(
        () => {},
        () => {},
      );
    }
    try {
      await append(database, event);
      ledger.committed.push(id);
    } catch {
      ledger.unknown.push(id);
      await sleep(50);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      if (mayAppend()) await Promise.all(Array.from({ length: 1 + Math.floor(chance() * 4) }, appendOne));
      await sleep(chance() * 20);
    }
  }

  const done = run();
  return {
    ledger,
    async stop() {
      stopped = true;
      await done;
    },
  };
}

/** Checks that no event and no delivery is waiting. */
export async function isQuiet(database: Database): Promise<boolean> {
  const { rows } = await database.raw(
    `select (select count(*) from outbox) + (select count(*) from webhook_deliveries where settled_at is null) as n`,
  );
  return rows[0].n === 0;
}

/** The amounts that the invariants covered. A test can check that none of these numbers is zero. */
export type Checked = { requests: number; lostAttempts: number; orderedConnections: number };

/**
 * Checks the invariants that must be true after any kill. No event is lost or invented. A delivery has at
 * most one additional request for each fault that hit it. All signatures are valid. Every connection without
 * a fault received its events in order.
 */
export async function checkInvariants(
  database: Database,
  receiver: Receiver,
  ledger: Ledger,
): Promise<Checked> {
  const received = new Map<string, { deliveries: Set<string>; requests: number }>();
  for (const { event, deliveryId } of receiver.requests) {
    const id = String(event.request_id);
    const entry = received.get(id) ?? { deliveries: new Set(), requests: 0 };
    entry.deliveries.add(deliveryId);
    entry.requests += 1;
    received.set(id, entry);
  }
  expect(ledger.committed.filter((id) => !received.has(id))).toEqual([]);
  const possible = new Set([...ledger.committed, ...ledger.unknown]);
  expect([...received.keys()].filter((id) => !possible.has(id))).toEqual([]);
  expect([...received].filter(([, { deliveries }]) => deliveries.size !== 1)).toEqual([]);
  expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
  expect(await database("dead_letters")).toEqual([]);

  const { rows } = await database.raw(
    `select d.delivery_id, d.state, count(a.attempt) filter (where a.outcome = 'lost') as lost
     from webhook_deliveries d left join webhook_attempts a on a.delivery_id = d.delivery_id group by d.delivery_id`,
  );
  const lost = new Map<string, number>(
    rows.map((row: { delivery_id: string; lost: number }) => [row.delivery_id, row.lost]),
  );
  expect(rows.filter((row: { state: string }) => row.state !== "delivered")).toEqual([]);
  const excess = [...received.values()].filter(({ deliveries, requests }) => {
    const [id = ""] = deliveries;
    return requests > 1 + (lost.get(id) ?? 0);
  });
  expect(excess).toEqual([]);
  return {
    requests: receiver.requests.length,
    lostAttempts: [...lost.values()].reduce((sum, count) => sum + count, 0),
    orderedConnections: await checkOrder(database, receiver),
  };
}

async function checkOrder(database: Database, receiver: Receiver): Promise<number> {
  const { rows } = await database.raw(
    `select e.connection_id, array_agg(d.delivery_id::text order by d.aggregate_seq) as ids
     from webhook_deliveries d join webhook_endpoints e on e.endpoint_id = d.endpoint_id
     group by e.connection_id having max(d.attempts) = 1 and count(*) > 1`,
  );
  for (const { connection_id, ids } of rows) {
    const own = receiver.requests.filter(({ event }) => event.connection_id === connection_id);
    expect(own.map(({ deliveryId }) => deliveryId)).toEqual(ids);
  }
  return rows.length;
}
