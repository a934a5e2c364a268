import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { expect, test } from "vitest";
import type { BusEvent, Consumer } from "../../src/events/bus.ts";
import { consume, createLocalBus } from "../../src/events/consume.ts";
import { useDatabase } from "./support/database.ts";
import { virtualClock } from "./support/time.ts";

const home = useDatabase();
const clock = virtualClock();
const deps = () => ({ database: home.database, clock, log: pino({ level: "silent" }) });

function event(label: string): BusEvent {
  return {
    eventId: randomUUID(),
    type: "delegation.denied",
    aggregateType: "connection",
    aggregateId: randomUUID(),
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: JSON.stringify({ label }),
    headers: {},
    createdAt: clock.now(),
  };
}
const labelOf = ({ payload }: BusEvent): string => JSON.parse(payload).label;

/** Returns a consumer that inserts a row for each event. `fail` may throw. */
function counting(fail: (event: BusEvent) => void = () => {}) {
  const name = `test-${randomUUID()}`;
  const tries: string[] = [];
  const consumer: Consumer = {
    name,
    async handle(tx, events) {
      for (const each of events) {
        tries.push(labelOf(each));
        await tx("event_secrets").insert({
          event_id: each.eventId,
          sealed: Buffer.of(1),
          created_at: clock.now(),
        });
        fail(each);
      }
    },
  };
  const effects = async (events: BusEvent[]) => {
    const ids = events.map((each) => each.eventId);
    const kept = await home.database("event_secrets").whereIn("event_id", ids).pluck("event_id");
    return events.filter((each) => kept.includes(each.eventId)).map(labelOf);
  };
  const inbox = () => home.database("inbox").where({ consumer: name }).pluck("event_id");
  const deadLetters = () => home.database("dead_letters").where({ consumer: name });
  return { name, consumer, tries, effects, inbox, deadLetters };
}

test("an event that arrives twice, in one batch or in two, takes effect once", async () => {
  const { consumer, tries } = counting();
  const [one, two] = [event("one"), event("two")];
  await consume(deps(), consumer, [one, two, one]);
  await consume(deps(), consumer, [two, one]);
  expect(tries).toEqual(["one", "two"]);
});

test("an event that arrives in several processes concurrently takes effect once", async () => {
  const { consumer, tries, inbox } = counting();
  const events = Array.from({ length: 20 }, (_, n) => event(String(n)));
  const shuffled = (seed: number) => [...events.slice(seed), ...events.slice(0, seed)];
  await Promise.all([0, 5, 10, 15, 3, 8].map((seed) => consume(deps(), consumer, shuffled(seed))));
  expect(tries.toSorted((a, b) => Number(a) - Number(b))).toEqual(events.map(labelOf));
  expect((await inbox()).length).toBe(20);
});

test("each of two consumers receives every event", async () => {
  const [first, second] = [counting(), counting((each) => void each)];
  const bus = createLocalBus(deps());
  const only: Consumer = {
    name: second.name,
    handle: async (_, events) => void second.tries.push(...events.map(labelOf)),
  };
  await bus.subscribe(first.consumer);
  await bus.subscribe(only);
  await bus.publish([event("one")]);
  expect([first.tries, second.tries]).toEqual([["one"], ["one"]]);
});

test("an event that always fails becomes a dead letter after three separate tries, and other events take effect", async () => {
  const { consumer, tries, effects, deadLetters } = counting((each) => {
    if (labelOf(each) === "poison") throw new TypeError("cannot read it");
  });
  const events = ["a", "poison", "b"].map(event);
  await consume(deps(), consumer, events);
  expect(await effects(events)).toEqual(["a", "b"]);
  expect(tries.filter((label) => label === "poison").length).toBe(4);
  expect(await deadLetters()).toEqual([
    expect.objectContaining({
      event_id: events[1]!.eventId,
      reason: "TypeError: cannot read it",
      event: JSON.parse(JSON.stringify(events[1])),
    }),
  ]);
  await consume(deps(), consumer, events);
  expect(tries.filter((label) => label === "poison").length).toBe(4);
});

test("an event with NUL characters becomes a dead letter without them, and later events are handled", async () => {
  const { consumer, effects, deadLetters } = counting();
  const [strange, next] = [event("strange"), event("next")];
  strange.payload = `\0${strange.payload}\0`;
  strange.headers = { traceparent: "a\0" };
  await consume(deps(), consumer, [strange, next]);
  expect(await effects([next])).toEqual(["next"]);
  const [letter] = await deadLetters();
  expect(letter).toMatchObject({
    event_id: strange.eventId,
    reason: expect.stringContaining("\ufffd"),
    event: { payload: expect.stringContaining("\ufffd"), headers: { traceparent: "a\ufffd" } },
  });
});

test("an event that fails only temporarily does not become a dead letter", async () => {
  let faults = 3;
  const { consumer, effects, deadLetters } = counting(() => {
    if (faults-- > 0) throw new Error("not yet");
  });
  const events = [event("one")];
  await consume(deps(), consumer, events);
  expect([await effects(events), await deadLetters()]).toEqual([["one"], []]);
});

test.each([
  ["the connection is cut", "select pg_terminate_backend(pg_backend_pid())"],
  ["the transaction is rolled back for a deadlock", "do $$ begin raise sqlstate '40P01'; end $$"],
  ["the server's disk is full", "do $$ begin raise sqlstate '53100'; end $$"],
  ["the server became read-only", "do $$ begin raise sqlstate '25006'; end $$"],
  ["the server ended an idle transaction", "do $$ begin raise sqlstate '25P03'; end $$"],
  ["an object is in use", "do $$ begin raise sqlstate '55006'; end $$"],
  ["the server's machine has a fault", "do $$ begin raise sqlstate '58030'; end $$"],
  ["the process has no free file descriptor", "out of files"],
])("if %s, consume throws and stores no dead letter, and a later call takes effect once", async (_, sql) => {
  const { consumer, effects, inbox, deadLetters } = counting();
  let away = true;
  const failing: Consumer = {
    ...consumer,
    async handle(tx, events) {
      await consumer.handle(tx, events);
      if (away && sql === "out of files") throw Object.assign(new Error(sql), { code: "EMFILE" });
      if (away) await tx.raw(sql);
    },
  };
  const events = ["one", "two"].map(event);
  await expect(consume(deps(), failing, events)).rejects.toThrow();
  expect([await effects(events), await inbox(), await deadLetters()]).toEqual([[], [], []]);
  away = false;
  await consume(deps(), failing, events);
  expect([await effects(events), await deadLetters()]).toEqual([["one", "two"], []]);
});

test("the local bus rejects if a consumer could not handle an event, and resolves after the commit", async () => {
  const { consumer, effects } = counting();
  let away = true;
  const bus = createLocalBus(deps());
  await bus.subscribe({
    ...consumer,
    async handle(tx, events) {
      if (away) await tx.raw("select pg_terminate_backend(pg_backend_pid())");
      await consumer.handle(tx, events);
    },
  });
  const events = [event("one")];
  await expect(bus.publish(events)).rejects.toThrow();
  away = false;
  await bus.publish(events);
  expect(await effects(events)).toEqual(["one"]);
});

test("a closed local bus accepts no events and reports that it is closed", async () => {
  const bus = createLocalBus(deps());
  expect(await bus.health()).toEqual({ ok: true });
  await bus.close();
  expect(await bus.health()).toEqual({ ok: false, detail: "closed" });
  await expect(bus.publish([event("one")])).rejects.toThrow("closed");
});

test("a consumer receives only events of its aggregate type, and other events do not enter the consumer's inbox", async () => {
  const { consumer, effects, inbox } = counting();
  const [own, other] = [event("own"), { ...event("other"), aggregateType: "account" }];
  await consume(deps(), { ...consumer, aggregateTypes: ["connection"] }, [own, other]);
  expect(await effects([own, other])).toEqual(["own"]);
  expect(await inbox()).toEqual([own.eventId]);
});
