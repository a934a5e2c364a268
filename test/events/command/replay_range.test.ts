import { randomUUID } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addSeconds, systemClock } from "../../../src/clock.ts";
import { openDatabase } from "../../../src/db/database.ts";
import type { PublishedEventRow } from "../../../src/db/tables.ts";
import type { ReplayRangeOptions } from "../../../src/events/command/range.ts";
import { type ReplayRangeDeps, replayRange } from "../../../src/events/command/replay_range.ts";
import type { Report } from "../../../src/events/command/report.ts";
import { createRelay, toEvent } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { readers } from "../../../src/installation/readers.ts";
import { insertRecords, type Records } from "../../proofs/records.ts";
import { makeConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { recordingBus } from "../support/events.ts";
import { anEvent, call, type Ended, json } from "./command_world.ts";

const home = useDatabase();
const now = systemClock.now();
const ago = (seconds: number) => addSeconds(now, -seconds);
const HOUR = { from: ago(3_600).toISOString(), to: addSeconds(now, 1).toISOString() };

beforeAll(() => home.database("event_way").update({ way: "kafka" }));
beforeEach(() => home.database.raw("truncate published_events, outbox, inbox, history_queue, audit_events"));

/** Inserts an event that Kafka has confirmed. */
async function published(change: Partial<PublishedEventRow> = {}): Promise<PublishedEventRow> {
  const event = anEvent();
  const row = {
    event_id: event.eventId,
    aggregatetype: event.aggregateType,
    aggregateid: event.aggregateId,
    aggregate_seq: 1,
    type: event.type,
    schema_version: 1,
    shard: 0,
    payload: event.payload,
    headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
    created_at: ago(60),
    published_at: ago(59),
    ...change,
  };
  await home.database("published_events").insert(row);
  return row;
}

const replay = (options: Partial<ReplayRangeOptions> = {}): Promise<Ended> =>
  call(home, (commands) => commands.replayRange({ ...HOUR, json: true, ...options }));

async function replayBatches(
  change: Partial<ReplayRangeDeps> & { batch: number },
  options: Partial<ReplayRangeOptions> = {},
): Promise<{ report: Report; said: string[] }> {
  const said: string[] = [];
  const session = openDatabase({ url: home.url, name: "test", max: 1, onError: () => {} });
  const deps = { clock: systemClock, readers, progress: (line: string) => void said.push(line), ...change };
  try {
    return { report: await replayRange(session, deps, { ...HOUR, ...options }), said };
  } finally {
    await session.destroy();
  }
}

const waiting = () => home.database("outbox").orderBy("id").pluck("event_id");

/** Creates a relay that owns every shard, over a bus that records events. */
async function openRelay() {
  const workerId = randomUUID();
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await createShardLeases(home.database, workerId, 3600).renew();
  const bus = recordingBus();
  const relay = createRelay({ database: home.database, bus, clock: systemClock, workerId, carrier: "kafka" });
  return { bus, drain: async () => void (await relay.step()) };
}

describe("deputize events replay for the lifecycle topic", () => {
  test("puts the unchanged events of the range into the outbox, and the relay publishes and keeps them again", async () => {
    const [early, first, last, late] = [
      await published({ created_at: ago(100) }),
      await published({ created_at: ago(50) }),
      await published({ created_at: ago(40) }),
      await published({ created_at: ago(30) }),
    ];
    const [from, to] = [ago(50).toISOString(), ago(30).toISOString()];
    expect(json(await replay({ from, to }))).toEqual({
      topic: "lifecycle",
      from,
      to,
      found: 2,
      brought: 2,
      left_out: 0,
      not_kept: null,
      dry_run: false,
    });
    expect(await waiting()).toEqual([first.event_id, last.event_id]);
    const { bus, drain } = await openRelay();
    await drain();
    expect(bus.published).toEqual([first, last].map((row) => toEvent(row)));
    expect(await waiting()).toEqual([]);
    const kept = await home.database("published_events").orderBy("created_at");
    expect(kept.map(({ event_id }) => event_id)).toEqual(
      [early, first, last, late].map(({ event_id }) => event_id),
    );
    expect(kept.map(({ published_at }) => published_at > ago(0))).toEqual([false, true, true, false]);
  });

  test("replays the same events when repeated, except events that still wait in the outbox", async () => {
    await published();
    expect(json(await replay()).brought).toBe(1);
    expect(json(await replay())).toMatchObject({ found: 1, brought: 0, left_out: 1 });
    await (await openRelay()).drain();
    expect(json(await replay()).brought).toBe(1);
  });

  test("keeps the events in the consumers' inboxes for 14 more days", async () => {
    const { event_id } = await published();
    const [old, handled] = [ago(12 * 86_400), { event_id, consumer: "webhooks" }];
    await home.database("inbox").insert({ ...handled, handled_at: old });
    await home.database("inbox").insert({ ...handled, event_id: randomUUID(), handled_at: old });
    await replay();
    const rows = await home.database("inbox").orderBy("handled_at");
    expect(rows.map(({ handled_at }) => handled_at > ago(60))).toEqual([false, true]);
    expect(rows[1]?.event_id).toBe(event_id);
  });

  test("keeps the order of a connection's events over several batches, even if the times are in a different order", async () => {
    const one = randomUUID();
    const seqs = [
      [3, 20],
      [1, 30],
      [2, 31],
      [4, 10],
    ] as const;
    for (const [seq, seconds] of seqs) {
      await published({ aggregateid: one, aggregate_seq: seq, created_at: ago(seconds) });
    }
    const other = await published({ created_at: ago(25) });
    const { report } = await replayBatches({ batch: 3 });
    expect(report.json).toMatchObject({ found: 5, brought: 5 });
    const rows = await home.database("outbox").orderBy("id");
    expect(
      rows.map(({ event_id, aggregate_seq }) => (event_id === other.event_id ? 0 : aggregate_seq)),
    ).toEqual([1, 2, 0, 3, 4]);
  });

  test("replays only events that match the filters", async () => {
    const { connectionId, accountId } = await makeConnection(home.database, null);
    const other = await makeConnection(home.database, null);
    await published({ aggregateid: other.connectionId });
    const [ofIt, ofAccount, revoked] = [
      await published({ aggregateid: connectionId }),
      await published({ aggregatetype: "account", aggregateid: accountId, type: "credits.low" }),
      await published({ type: "delegation.revoked" }),
    ];
    const found = async (options: Partial<ReplayRangeOptions>) => {
      await replay(options);
      const ids = await waiting();
      await home.database("outbox").delete();
      return ids.sort();
    };
    expect(await found({ connection: connectionId.toUpperCase() })).toEqual([ofIt.event_id]);
    expect(await found({ account: accountId })).toEqual([ofIt.event_id, ofAccount.event_id].sort());
    expect(await found({ account: accountId, type: "credits.low" })).toEqual([ofAccount.event_id]);
    expect(await found({ type: "delegation.revoked" })).toEqual([revoked.event_id]);
    expect(await found({ connection: randomUUID() })).toEqual([]);
    expect(await found({ connection: accountId })).toEqual([]);
  });

  test("with --dry-run, reports the number of events and changes nothing", async () => {
    const { event_id } = await published();
    await home.database("inbox").insert({ event_id, consumer: "webhooks", handled_at: ago(3_600) });
    expect(json(await replay({ dryRun: true }))).toMatchObject({ found: 1, brought: 0, dry_run: true });
    expect(await waiting()).toEqual([]);
    expect((await home.database("inbox").first())?.handled_at).toEqual(ago(3_600));
    expect((await replay({ dryRun: true, json: false })).out).toBe("Would be replayed: 1 event\n");
  });

  test("reports the part of a range whose events were deleted, and rejects a range in which all were deleted", async () => {
    await published();
    const [from, kept] = [ago(15 * 86_400), ago(13 * 86_400)];
    const ended = json(await replay({ from: from.toISOString() }));
    expect([ended.brought, ended.not_kept.from]).toEqual([1, from.toISOString()]);
    expect(Math.abs(new Date(ended.not_kept.to).getTime() - kept.getTime())).toBeLessThan(60_000);
    const lines = await replay({ from: from.toISOString(), json: false });
    expect(lines.out).toContain(`No longer kept: events from ${from.toISOString()} to `);
    const gone = await replay({ from: from.toISOString(), to: ago(13 * 86_400 + 60).toISOString() });
    expect([gone.status, gone.out]).toEqual([1, ""]);
    expect(gone.err).toMatch(
      /^deputize events: Events are kept for 13 days, since \S+: no event of this range can be replayed\n$/,
    );
  });

  test("keeps at most two batches in the outbox, and reports from where to continue", async () => {
    for (let n = 0; n < 45; n += 1) await published({ created_at: ago(100 - n) });
    const { bus, drain } = await openRelay();
    const counts: number[] = [];
    let isOver = false;
    const relaying = (async () => {
      while (!isOver) {
        counts.push((await waiting()).length);
        await drain();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const { report, said } = await replayBatches({ batch: 2 });
    isOver = true;
    await relaying;
    await drain();
    expect(report.json).toMatchObject({ found: 45, brought: 45 });
    expect(bus.published).toHaveLength(45);
    expect(Math.max(...counts)).toBeLessThanOrEqual(4);
    expect(said).toEqual([
      `20 of 45 were replayed; to continue, give --from ${ago(80).toISOString()}`,
      `40 of 45 were replayed; to continue, give --from ${ago(60).toISOString()}`,
    ]);
  });

  test("stops and reports how to continue if no worker takes the events", async () => {
    for (let n = 0; n < 5; n += 1) await published({ created_at: ago(100 - n) });
    let seconds = 0;
    const clock = {
      now() {
        seconds += 20;
        return addSeconds(now, seconds);
      },
    };
    await expect(replayBatches({ batch: 1, clock })).rejects.toThrow(
      `No worker takes events off the queue: start one. 2 of 5 were replayed; to continue, give --from ${ago(98).toISOString()}`,
    );
    expect(await waiting()).toHaveLength(2);
  });

  test("rejects a second replay at the same time", async () => {
    const session = openDatabase({ url: home.url, name: "test", max: 1, onError: () => {} });
    await replayRange(session, { clock: systemClock, readers, progress: () => {} }, HOUR);
    const refused = await replay();
    await session.destroy();
    expect([refused.status, refused.err]).toEqual([
      1,
      "deputize events: Another replay is running: wait until it ends\n",
    ]);
    expect((await replay()).status).toBe(0);
  });

  test("fails if EVENTS is embedded, even if the setting changes during the replay", async () => {
    for (let n = 0; n < 12; n += 1) await published();
    const selectCarrier = (to: "embedded" | "kafka") => home.database("event_way").update({ way: to });
    await selectCarrier("embedded");
    const refused = await replay();
    const message = "Events travel with EVENTS=embedded here, so there is no topic to replay them to";
    expect([refused.status, refused.err]).toEqual([1, `deputize events: ${message}\n`]);
    await selectCarrier("kafka");
    const { drain } = await openRelay();
    let calls = 0;
    const clock = {
      now() {
        calls += 1;
        const work = calls === 4 ? selectCarrier("embedded").then(() => undefined) : drain();
        work.catch(() => undefined);
        return new Date();
      },
    };
    await expect(replayBatches({ batch: 1, clock })).rejects.toThrow(message);
    await selectCarrier("kafka");
  });
});

describe("deputize events replay for the audit topic", () => {
  async function decided(records: Records, seconds: number, type = "proof.verified") {
    const row = {
      account_id: records.accountId,
      occurred_at: ago(seconds),
      event_id: randomUUID(),
      event_type: type as "proof.verified",
      connection_id: records.connectionId,
      agent_id: records.agentId,
      decision: "allow" as const,
    };
    await home.database("audit_events").insert(row);
    return row;
  }

  const queued = () => home.database("history_queue").orderBy("occurred_at").pluck("event_id");

  test("puts history rows of any age into the queue", async () => {
    const records = await insertRecords(home.database, 0);
    const other = await insertRecords(home.database, 0);
    const old = await decided(records, 400 * 86_400);
    const [one, two] = [await decided(other, 50), await decided(records, 40, "proof.rejected")];
    await decided(records, 20);
    const range = { topic: "audit", from: ago(500 * 86_400).toISOString(), to: ago(20).toISOString() };
    expect(json(await replay(range))).toMatchObject({ topic: "audit", found: 3, brought: 3, not_kept: null });
    expect(await queued()).toEqual([old.event_id, one.event_id, two.event_id]);
    expect(json(await replay(range))).toMatchObject({ brought: 0, left_out: 3 });
    const found = async (options: Partial<ReplayRangeOptions>) =>
      json(await replay({ ...range, ...options, dryRun: true })).found;
    expect(await found({ account: records.accountId })).toBe(2);
    expect(await found({ connection: other.connectionId })).toBe(1);
    expect(await found({ type: "proof.rejected" })).toBe(1);
  });

  test("works in batches while a worker empties the queue", async () => {
    const records = await insertRecords(home.database, 0);
    for (let n = 0; n < 7; n += 1) await decided(records, 100 - n);
    const taken: string[] = [];
    let isOver = false;
    const taking = (async () => {
      while (!isOver) {
        const rows = await home.database("history_queue").delete().returning("event_id");
        taken.push(...rows.map(({ event_id }) => event_id));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const { report } = await replayBatches({ batch: 2 }, { topic: "audit" });
    isOver = true;
    await taking;
    expect(report.json).toMatchObject({ found: 7, brought: 7 });
    expect(new Set([...taken, ...(await queued())]).size).toBe(7);
  });
});

test.each([
  ["--to before --from", { from: HOUR.to, to: HOUR.from }, "--to is not after --from"],
  ["an empty range", { from: HOUR.to, to: HOUR.to }, "--to is not after --from"],
  ["an invalid time", { from: "monday" }, "--from is not a time such as 2026-11-24T09:30:00Z"],
  ["another topic", { topic: "dlq" }, "--topic is neither lifecycle nor audit"],
  ["a type of the other topic", { type: "proof.verified" }, "--type is none of connection.created, "],
  ["an unknown type", { topic: "audit", type: "x" }, "--type is none of proof.verified, "],
  ["an invalid connection id", { connection: "x" }, `"x" is not a connection's id`],
  ["an invalid account id", { account: "x" }, `"x" is not an account's id`],
])("deputize events replay rejects %s in one line", async (_, options, message) => {
  const { status, out, err } = await replay(options);
  expect([status, out]).toEqual([2, ""]);
  expect(err).toContain(`deputize events: ${message}`);
  expect(err.trimEnd()).not.toContain("\n");
});
