import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Bus, BusEvent, Consumer } from "../../src/events/bus.ts";
import { until } from "../support/process.ts";
import type { Home } from "./support/database.ts";

/** A bus and its clean-up. */
export type BusHarness = { bus: Bus; dispose(): Promise<void> };

const NOW = new Date("2026-01-31T12:00:00.123Z");

export function busEvent(label: string, change: Partial<BusEvent> = {}): BusEvent {
  return {
    eventId: randomUUID(),
    type: "delegation.denied",
    aggregateType: "connection",
    aggregateId: randomUUID(),
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: JSON.stringify({ event: "delegation.denied", label }),
    headers: {},
    createdAt: NOW,
    ...change,
  };
}

export const labelOf = ({ payload }: BusEvent): string => JSON.parse(payload).label;

/** Returns a consumer that records the events it has committed. */
export function keeping(fail: (event: BusEvent) => void = () => undefined, aggregateType?: string) {
  const handled: BusEvent[] = [];
  let wakes = 0;
  const consumer: Consumer = {
    name: `test-${randomUUID()}`,
    ...(aggregateType !== undefined && { aggregateTypes: [aggregateType] }),
    async handle(_, events) {
      for (const event of events) fail(event);
      handled.push(...events);
    },
    handled: () => {
      wakes += 1;
    },
  };
  return { consumer, handled, wakes: () => wakes };
}

/** Declares the tests that every bus must pass. */
export function describeBus(name: string, home: Home, open: () => Promise<BusHarness>): void {
  describe(name, () => {
    let harness: BusHarness;
    beforeEach(async () => {
      harness = await open();
    });
    afterEach(() => harness.dispose());

    test("delivers every event unchanged to every consumer", async () => {
      const [one, two] = [keeping(), keeping()];
      for (const { consumer } of [one, two]) await harness.bus.subscribe(consumer);
      const headers = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
      const events = [busEvent("a", { headers }), busEvent("bücher \u{1f600}", { aggregateType: "account" })];
      await harness.bus.publish(events);
      for (const { handled, wakes } of [one, two]) {
        await until("they are handled", async () => handled.length === 2 && wakes() > 0);
        expect(new Set(handled)).toEqual(new Set(events));
      }
    });

    test("keeps the order of one aggregate's events", async () => {
      const { consumer, handled } = keeping();
      await harness.bus.subscribe(consumer);
      const ids = Array.from({ length: 5 }, () => randomUUID());
      const events = Array.from({ length: 300 }, (_, n) =>
        busEvent(String(n), { aggregateId: ids[n % 5] as string, aggregateSeq: Math.floor(n / 5) + 1 }),
      );
      for (let from = 0; from < 300; from += 40) await harness.bus.publish(events.slice(from, from + 40));
      await until("they are handled", async () => handled.length === 300);
      for (const id of ids) {
        const seen = handled.filter(({ aggregateId }) => aggregateId === id);
        expect(seen.map(({ aggregateSeq }) => aggregateSeq)).toEqual(
          Array.from({ length: 60 }, (_, n) => n + 1),
        );
      }
    });

    test("lets a consumer handle an event once, however often it is published", async () => {
      const { consumer, handled } = keeping();
      await harness.bus.subscribe(consumer);
      const [event, last] = [busEvent("one"), busEvent("last")];
      for (let time = 0; time < 3; time += 1) await harness.bus.publish([event]);
      await harness.bus.publish([{ ...last, aggregateId: event.aggregateId }]);
      await until("the last one is handled", async () => handled.some((each) => labelOf(each) === "last"));
      expect(handled.map(labelOf)).toEqual(["one", "last"]);
    });

    test("delivers only the events that a consumer reads", async () => {
      const { consumer, handled } = keeping(() => undefined, "account");
      await harness.bus.subscribe(consumer);
      await harness.bus.publish([busEvent("connection"), busEvent("account", { aggregateType: "account" })]);
      await until("it is handled", async () => handled.length === 1);
      expect(handled.map(labelOf)).toEqual(["account"]);
    });

    test("stores a dead letter for an event that its consumer cannot handle, and continues with later events", async () => {
      const { consumer, handled } = keeping((event) => {
        if (labelOf(event) === "poison") throw new TypeError("cannot read it");
      });
      await harness.bus.subscribe(consumer);
      const aggregateId = randomUUID();
      const events = ["a", "poison", "b"].map((label) => busEvent(label, { aggregateId }));
      await harness.bus.publish(events);
      await until("the others are handled", async () => handled.length === 2);
      expect(handled.map(labelOf)).toEqual(["a", "b"]);
      await until("it is put aside", async () => {
        const rows = await home.database("dead_letters").where({ consumer: consumer.name });
        return rows.length === 1 && rows[0]?.event_id === events[1]?.eventId;
      });
    });

    test("loses no event while the database is unavailable, and delivers each event once", async () => {
      const seen: string[] = [];
      let away = true;
      await harness.bus.subscribe({
        name: `test-${randomUUID()}`,
        async handle(tx, events) {
          if (away) await tx.raw("select pg_terminate_backend(pg_backend_pid())");
          seen.push(...events.map(labelOf));
        },
      });
      const event = busEvent("one");
      await harness.bus.publish([event]).catch(() => undefined);
      away = false;
      await harness.bus.publish([event]);
      await until("it is handled", async () => seen.length > 0);
      expect(seen).toEqual(["one"]);
    });

    test("rejects events after it was closed, and reports that it is closed", async () => {
      expect(await harness.bus.health()).toEqual({ ok: true });
      await harness.bus.close();
      expect(await harness.bus.health()).toEqual({ ok: false, detail: "closed" });
      await expect(harness.bus.publish([busEvent("one")])).rejects.toThrow("closed");
    });
  });
}
