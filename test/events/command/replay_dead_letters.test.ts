import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { addSeconds, systemClock } from "../../../src/clock.ts";
import { openDatabase } from "../../../src/db/database.ts";
import type { BusEvent } from "../../../src/events/bus.ts";
import { replayLetters } from "../../../src/events/command/replay_dead_letters.ts";
import { appendEvent } from "../../../src/events/outbox.ts";
import { takeOffOutbox } from "../../../src/events/published.ts";
import { toEvent } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { readers } from "../../../src/installation/readers.ts";
import { makeConnection, secretBox } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { createdEvent } from "../support/events.ts";
import { anEvent, call, type Ended, json, letter, relayAll } from "./command_world.ts";

const home = useDatabase();
beforeEach(() => home.database.raw("truncate dead_letters, inbox, outbox"));

type Options = Partial<Parameters<typeof replayLetters>[2]>;
const replay = (options: Options): Promise<Ended> =>
  call(home, (commands) => commands.replayLetters({ eventIds: [], json: true, ...options }));

const waiting = () => home.database("outbox").orderBy("id").pluck("event_id");
const left = { unreadable: 0, too_old: 0, no_consumer: 0, number_taken: 0 };
const ofOne = (seq: number, aggregateId: string) => ({ aggregateId, aggregateSeq: seq });

describe("deputize events dead-letters replay", () => {
  test("sends the event with its secrets to the consumer that could not handle it", async () => {
    const connection = await makeConnection(home.database, "https://hooks.example.test/");
    await home.database.transaction((tx) =>
      appendEvent(tx, secretBox, createdEvent(connection, "dpz_key"), new Date()),
    );
    const row = await home.database("outbox").first();
    const event = await letter(home, row && toEvent(row));
    await home.database("outbox").delete();
    expect(json(await replay({ eventIds: [event.eventId] }))).toEqual({ replayed: 1, left, dry_run: false });
    expect(await home.database("dead_letters")).toEqual([]);
    await relayAll(home);
    const deliveries = await home.database("webhook_deliveries").where({ event_id: event.eventId });
    expect(deliveries).toHaveLength(1);
    expect(deliveries[0]).toMatchObject({ state: "pending", event_type: "connection.created", body: null });
    expect(await home.database("inbox").where({ event_id: event.eventId }).pluck("consumer")).toEqual([
      "webhooks",
    ]);
  });

  test("puts the unchanged event into the outbox", async () => {
    const headers = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
    const event = await letter(home, { headers, aggregateSeq: 7 });
    await replay({ all: true });
    const row = await home.database("outbox").first();
    expect(row && toEvent(row)).toEqual(event);
  });

  test("keeps the event in the inbox of other consumers for longer", async () => {
    const event = await letter(home);
    const long = addSeconds(systemClock.now(), -12 * 86_400);
    const known = { event_id: event.eventId, handled_at: long };
    await home.database("inbox").insert({ ...known, consumer: "notices" });
    await replay({ eventIds: [event.eventId] });
    const rows = await home.database("inbox");
    expect(rows.map(({ consumer }) => consumer)).toEqual(["notices"]);
    expect(rows[0]?.handled_at.getTime()).toBeGreaterThan(systemClock.now().getTime() - 60_000);
  });

  test("keeps the order of one connection's events over several batches", async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    const at = systemClock.now();
    const events: BusEvent[] = [];
    for (const seq of [3, 1, 2]) events.push(await letter(home, ofOne(seq, one), { at }));
    events.push(await letter(home, ofOne(1, other), { at: addSeconds(at, -1) }));
    const report = await replayLetters(
      home.database,
      { clock: systemClock, readers, batch: 2 },
      { eventIds: [], all: true },
    );
    expect(report.json).toMatchObject({ replayed: 4 });
    const seqs = await home
      .database("outbox")
      .where({ aggregateid: one })
      .orderBy("id")
      .pluck("aggregate_seq");
    expect(seqs).toEqual([1, 2, 3]);
    expect((await waiting())[0]).toBe(events[3]?.eventId);
  });

  test("keeps the order of events even if the letters' ids are given in a different order", async () => {
    const [aggregateId, at] = [randomUUID(), systemClock.now()];
    const events: BusEvent[] = [];
    for (const seq of [4, 2, 3, 1, 5]) events.push(await letter(home, ofOne(seq, aggregateId), { at }));
    await replay({ eventIds: events.map(({ eventId }) => eventId) });
    const seqs = await home.database("outbox").orderBy("id").pluck("aggregate_seq");
    expect(seqs).toEqual([1, 2, 3, 4, 5]);
  });

  test("with --dry-run, reports what it would do and changes nothing", async () => {
    const event = await letter(home);
    await letter(home, { type: "unreadable", aggregateType: "unreadable" });
    for (const options of [{ all: true }, { consumer: "webhooks" }]) {
      const ended = await replay({ ...options, dryRun: true });
      expect(json(ended)).toEqual({ replayed: 1, left: { ...left, unreadable: 1 }, dry_run: true });
    }
    expect(json(await replay({ eventIds: [event.eventId], dryRun: true })).replayed).toBe(1);
    expect(await home.database("dead_letters")).toHaveLength(2);
    expect(await home.database("inbox")).toHaveLength(2);
    expect(await waiting()).toEqual([]);
  });

  test("sends only letters that match the filters", async () => {
    const wanted = await letter(home, { type: "delegation.revoked" }, { at: addSeconds(new Date(), -60) });
    const later = await letter(home, { type: "delegation.revoked" });
    await letter(home, {}, { at: addSeconds(new Date(), -60) });
    await letter(home, wanted, { consumer: "notices" });
    const until = addSeconds(new Date(), -30).toISOString();
    const ended = await replay({ type: "delegation.revoked", until, consumer: "webhooks" });
    expect(json(ended).replayed).toBe(1);
    expect(await waiting()).toEqual([wanted.eventId]);
    expect(json(await replay({ since: until, consumer: "webhooks" })).replayed).toBe(1);
    expect(await waiting()).toEqual([wanted.eventId, later.eventId]);
    expect(await home.database("dead_letters")).toHaveLength(2);
  });

  test("sends an event with two dead letters once, to both consumers", async () => {
    const event = await letter(home);
    await letter(home, event, { consumer: "notices" });
    expect(json(await replay({ all: true })).replayed).toBe(2);
    expect(await waiting()).toEqual([event.eventId]);
    expect(await home.database("inbox")).toEqual([]);
  });

  test.each([
    ["unreadable", { type: "unreadable" }, {}, "is a record of Kafka that could not be read"],
    ["too_old", {}, { at: addSeconds(new Date(), -13 * 86_400 - 60) }, "was put aside more than 13 days ago"],
    ["no_consumer", {}, { consumer: "gone" }, "belongs to a consumer that no longer exists"],
  ])(
    "skips a letter that has the obstacle %s, but rejects a call that names this letter",
    async (kind, event, how, said) => {
      const odd = await letter(home, event, how);
      const good = await letter(home);
      const refused = await replay({ eventIds: [good.eventId, odd.eventId] });
      expect([refused.status, refused.out]).toEqual([1, ""]);
      expect(refused.err).toContain(`deputize events: The dead letter ${odd.eventId} ${said}`);
      expect([await waiting(), await home.database("inbox")]).toEqual([
        [],
        expect.objectContaining({ length: 2 }),
      ]);
      const found = await replay({ all: true });
      expect([found.status, json(found)]).toEqual([
        0,
        { replayed: 1, left: { ...left, [kind]: 1 }, dry_run: false },
      ]);
      expect(await home.database("dead_letters").pluck("event_id")).toEqual([odd.eventId]);
      const lines = await replay({ all: true, json: false });
      expect(lines.out).toMatch(/^Sent again: 0 dead letters\nLeft: 1, each (is|was|belongs) [^\n]*\n$/);
    },
  );

  test("sends a letter that is one minute younger than 13 days", async () => {
    await letter(home, {}, { at: addSeconds(new Date(), -13 * 86_400 + 60) });
    expect(json(await replay({ all: true })).replayed).toBe(1);
  });

  test("skips a letter if a waiting event has the same sequence number", async () => {
    const live = anEvent();
    const forged = await letter(home, { aggregateId: live.aggregateId });
    await home.database("outbox").insert({
      event_id: live.eventId,
      aggregatetype: live.aggregateType,
      aggregateid: live.aggregateId,
      aggregate_seq: live.aggregateSeq,
      type: live.type,
      schema_version: 1,
      shard: 0,
      payload: live.payload,
      headers: {},
      created_at: live.createdAt,
    });
    expect(json(await replay({ all: true }))).toMatchObject({ replayed: 0, left: { number_taken: 1 } });
    const named = await replay({ eventIds: [forged.eventId] });
    expect(named.err).toContain("has the sequence number of another event that waits in the outbox");
    expect(await waiting()).toEqual([live.eventId]);
    expect(await home.database("dead_letters").pluck("event_id")).toEqual([forged.eventId]);
    expect(await home.database("inbox").pluck("event_id")).toEqual([forged.eventId]);
  });

  /* The relay has published the row but not deleted it yet, and the event became a dead letter. */
  test("does not lose an event whose previous row the relay is about to delete", async () => {
    const event = await letter(home);
    await replay({ all: true });
    await letter(home, event);
    const workerId = randomUUID();
    await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
    await createShardLeases(home.database, workerId, 3600).renew();
    const old = await home.database("outbox as o").join("relay_shards as s", "s.shard", "o.shard").first();
    await replay({ all: true });
    await takeOffOutbox(home.database, [old as never], { workerId, carrier: "embedded" });
    expect(await waiting()).toEqual([event.eventId]);
  });

  test("ignores letters that are created while it runs", async () => {
    const events: BusEvent[] = [];
    for (const seconds of [-60, -59, -58]) {
      events.push(await letter(home, {}, { at: addSeconds(new Date(), seconds) }));
    }
    const clock = {
      now: () => {
        putAsideAgain ??= letter(home, { ...anEvent() });
        return new Date();
      },
    };
    let putAsideAgain: Promise<BusEvent> | undefined;
    const report = await replayLetters(
      home.database,
      { clock, readers, batch: 1 },
      { eventIds: [], all: true },
    );
    expect(report.json).toMatchObject({ replayed: 3 });
    expect(await home.database("dead_letters").pluck("event_id")).toEqual([(await putAsideAgain)?.eventId]);
  });

  test("sends each letter once in four concurrent runs", async () => {
    for (let n = 0; n < 40; n += 1) await letter(home);
    const databases = Array.from({ length: 4 }, () =>
      openDatabase({ url: home.url, name: "test", max: 1, onError: () => {} }),
    );
    const reports = await Promise.all(
      databases.map((database) =>
        replayLetters(database, { clock: systemClock, readers, batch: 7 }, { eventIds: [], all: true }),
      ),
    );
    await Promise.all(databases.map((database) => database.destroy()));
    const replayed = reports.map((report) => Number(report.json.replayed));
    expect(replayed.reduce((sum, number) => sum + number)).toBe(40);
    expect(new Set(await waiting()).size).toBe(40);
    expect(await home.database("dead_letters")).toEqual([]);
  });

  test("changes nothing in an interrupted batch, and sends the batch in the next run", async () => {
    for (let n = 0; n < 6; n += 1) await letter(home);
    let calls = 0;
    const clock = {
      now: () => {
        calls += 1;
        if (calls === 8) throw new Error("killed");
        return new Date();
      },
    };
    const deps = { clock, readers, batch: 3 };
    await expect(replayLetters(home.database, deps, { eventIds: [], all: true })).rejects.toThrow("killed");
    const [letters, sent] = [await home.database("dead_letters").pluck("event_id"), await waiting()];
    expect([letters.length, sent.length]).toEqual([3, 3]);
    expect(await home.database("inbox").pluck("event_id")).toEqual(expect.arrayContaining(letters));
    expect(json(await replay({ all: true })).replayed).toBe(3);
    expect(new Set(await waiting()).size).toBe(6);
  });

  const id = randomUUID();
  test.each([
    ["a call without events or filters", {}, "Name the events to send again, or give a filter, or --all"],
    [
      "--all together with a filter",
      { all: true, type: "delegation.denied" },
      "Give --all or filters, not both",
    ],
    ["--all together with an event", { all: true, eventIds: [id] }, "Name events or give filters, not both"],
    [
      "a filter together with an event",
      { consumer: "webhooks", eventIds: [id] },
      "Name events or give filters, not both",
    ],
    ["an invalid id", { eventIds: ["x"] }, `"x" is not an event's id`],
    [
      "too many events",
      { eventIds: Array.from({ length: 1_001 }, () => id) },
      "Name at most 1000 events, or give a filter",
    ],
    ["an invalid time", { since: "now" }, "--since is not a time such as 2026-11-24T09:30:00Z"],
    ["an event without a dead letter", { eventIds: [id] }, `There is no dead letter of the event ${id}`, 1],
  ])("rejects %s", async (_, options, message, status = 2) => {
    await letter(home);
    expect(await replay(options)).toEqual({ status, out: "", err: `deputize events: ${message}\n` });
    expect(await waiting()).toEqual([]);
  });
});
