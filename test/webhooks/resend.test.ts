import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { claimDeliveries, reapLost } from "../../src/webhooks/claim.ts";
import { endpointIdOf, pauseEndpoint } from "../../src/webhooks/endpoint.ts";
import {
  RESEND_ATTEMPTS,
  type Resendable,
  resendDelivery,
  resendRefusal,
} from "../../src/webhooks/resend_and_recover.ts";
import type { TestConnection } from "../events/support/connection.ts";
import { append, createdEvent } from "../events/support/events.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;
const now = () => world.harness.clock.now();

const resend = ({ connectionId }: TestConnection, deliveryId: string) =>
  world.home.database.transaction((tx) => resendDelivery(tx, endpointIdOf(connectionId), deliveryId, now()));
const rowOf = async (deliveryId: string) => {
  const row = await world.home.database("webhook_deliveries").where({ delivery_id: deliveryId }).first();
  if (row === undefined) throw new Error("no such delivery");
  return row;
};

/** Creates a connection whose only delivery has ended with the receiver's `status`. */
async function ended(status: number) {
  const connection = await connect();
  world.receiver.reply = () => status;
  await deny(connection);
  await world.harness.run();
  const [delivery] = await world.harness.deliveries(connection.connectionId);
  return { connection, deliveryId: delivery?.deliveryId ?? "" };
}

describe("resendRefusal", () => {
  const AT = new Date("2026-03-01T00:00:00.000Z");
  const sound: Resendable = {
    state: "failed",
    attempts: 10,
    next_attempt_at: null,
    has_body: true,
    callback_url: "https://shop.example.com/hook",
    is_active: true,
  };
  test.each([
    [{}, undefined],
    [{ state: "delivered" }, undefined],
    [{ state: "rejected" }, undefined],
    [{ state: "blocked" }, undefined],
    [{ state: "cancelled", has_body: false }, "delivery_body_erased"],
    [{ state: "delivered", has_body: false }, "delivery_body_erased"],
    [{ state: "pending", next_attempt_at: AT }, "delivery_under_way"],
    [{ state: "pending", next_attempt_at: addSeconds(AT, 1) }, undefined],
    [{ state: "pending", next_attempt_at: addSeconds(AT, 1), attempts: 0 }, "delivery_under_way"],
    [{ state: "pending", next_attempt_at: addSeconds(AT, 1), is_active: false }, "callback_inactive"],
    [{ state: "sending" }, "delivery_under_way"],
    [{ state: "held", is_active: false }, "callback_inactive"],
    [{ state: "held" }, "delivery_under_way"],
    [{ is_active: false }, "callback_inactive"],
    [{ callback_url: null, is_active: false }, "no_callback"],
    [{ attempts: RESEND_ATTEMPTS - 1 }, undefined],
    [{ attempts: RESEND_ATTEMPTS }, "delivery_limit"],
  ] as [Partial<Resendable>, string | undefined][])(
    "for a failed delivery with the fields %j returns %s",
    (change, refusal) => {
      expect(resendRefusal({ ...sound, ...change }, AT)).toBe(refusal);
    },
  );
});

describe("a resent delivery", () => {
  test.each([204, 404])("keeps its id and bytes after a response of %i", async (status) => {
    const { connection, deliveryId } = await ended(status);
    world.receiver.reply = () => 204;
    expect(await resend(connection, deliveryId)).toBeUndefined();
    expect(await rowOf(deliveryId)).toMatchObject({ state: "pending", settled_at: null, schedule_start: 1 });
    await world.harness.deliver();
    const [first, second] = world.receiver.requests;
    expect([second?.deliveryId, second?.body]).toEqual([first?.deliveryId, first?.body]);
    expect(second?.faults).toEqual([]);
    expect(await states(connection)).toEqual(["delivered"]);
    expect(await rowOf(deliveryId)).toMatchObject({ attempts: 2, settled_at: now() });
    expect(world.receiver.requests.length).toBe(2);
  });

  test("reaches the receiver once, however often the resend is requested", async () => {
    const { connection, deliveryId } = await ended(204);
    const answers = await Promise.all(Array.from({ length: 8 }, () => resend(connection, deliveryId)));
    expect(answers.filter((answer) => answer === undefined)).toHaveLength(1);
    expect(answers.filter((answer) => answer === "delivery_under_way")).toHaveLength(7);
    await world.harness.deliver();
    expect(world.receiver.requests.length).toBe(2);
  });

  test("reaches the receiver now if it waits for a retry", async () => {
    const { connection, deliveryId } = await ended(500);
    expect(await rowOf(deliveryId)).toMatchObject({ state: "pending", attempts: 1 });
    world.receiver.reply = () => 204;
    expect(await resend(connection, deliveryId)).toBeUndefined();
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["delivered"]);
    expect(world.receiver.requests.map((request) => request.deliveryId)).toEqual([deliveryId, deliveryId]);
  });

  test("cannot be resent again while it is being sent", async () => {
    const { connection, deliveryId } = await ended(500);
    world.harness.clock.advance(6);
    let meanwhile: unknown;
    world.receiver.reply = async () => {
      meanwhile = await resend(connection, deliveryId);
      return 204;
    };
    await world.harness.deliver();
    expect(meanwhile).toBe("delivery_under_way");
    expect(await states(connection)).toEqual(["delivered"]);
    expect(world.receiver.requests.length).toBe(2);
  });

  test("gets one new schedule of ten attempts", async () => {
    const { connection, deliveryId } = await ended(404);
    world.receiver.reply = () => 500;
    await resend(connection, deliveryId);
    const start = now();
    const waits: number[] = [];
    await world.harness.deliver();
    for (let next = await world.harness.nextAttempt(); next; next = await world.harness.nextAttempt()) {
      waits.push((next.getTime() - now().getTime()) / 1000);
      world.harness.clock.set(next);
      await world.home
        .database("webhook_endpoints")
        .update({ breaker_open_until: null, breaker_open_seconds: null });
      await world.harness.deliver();
    }
    expect(waits).toEqual([5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    expect(now().getTime() - start.getTime()).toBe(272_105_000);
    expect(await rowOf(deliveryId)).toMatchObject({ state: "failed", attempts: 11 });
  });

  test("can be postponed once more by a 429, whatever the earlier responses were", async () => {
    const { connection, deliveryId } = await ended(429);
    world.harness.clock.advance(80);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["rejected"]);
    await resend(connection, deliveryId);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["pending"]);
    world.harness.clock.advance(80);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["rejected"]);
  });

  test("fails only after its worker has died 20 more times", async () => {
    const connection = await connect();
    const lost = { state: "sending", schedule_start: 30 } as const;
    const at = now();
    const goesOn = await insertDelivery(world.home.database, connection.connectionId, {
      ...{ ...lost, at },
      attempts: 49,
    });
    const ends = await insertDelivery(world.home.database, connection.connectionId, {
      ...{ ...lost, at },
      attempts: 50,
    });
    expect(await reapLost(world.home.database, addSeconds(at, 60))).toBe(2);
    expect([(await rowOf(goesOn)).state, (await rowOf(ends)).state]).toEqual(["pending", "failed"]);
  });

  test("neither waits for deliveries that were never tried nor delays them", async () => {
    const { connection, deliveryId } = await ended(404);
    world.receiver.reply = () => 204;
    await deny(connection, "first");
    await deny(connection, "second");
    await world.harness.relay();
    await resend(connection, deliveryId);
    const claimed = await claimDeliveries(world.home.database, 10, now());
    expect(claimed.map(({ delivery_id }) => delivery_id)).toContain(deliveryId);
    expect(claimed.map(({ attempts }) => attempts).sort()).toEqual([1, 2]);
    const { database } = world.home;
    const free = { state: "delivered", settled_at: now(), lease_token: null, lease_until: null } as const;
    await database("webhook_deliveries").where({ attempts: 1, state: "sending" }).update(free);
    const next = await claimDeliveries(database, 10, now());
    expect(next.map(({ body }) => JSON.parse(body ?? "").request_id)).toEqual(["second"]);
  });

  test("keeps its secrets until they are delivered, and then they are erased", async () => {
    const connection = await connect();
    world.receiver.reply = () => 404;
    await append(world.home.database, createdEvent(connection, "dpz_key"), now());
    await world.harness.run();
    const [delivery] = await world.harness.deliveries(connection.connectionId);
    const deliveryId = delivery?.deliveryId ?? "";
    world.receiver.reply = () => 204;
    expect(await resend(connection, deliveryId)).toBeUndefined();
    await world.harness.deliver();
    expect(world.receiver.requests.map(({ event }) => event.api_key)).toEqual(["dpz_key", "dpz_key"]);
    expect(await resend(connection, deliveryId)).toBe("delivery_body_erased");
  });

  test("must belong to the endpoint that the caller names", async () => {
    const { deliveryId } = await ended(404);
    const other = await connect();
    expect(await resend(other, deliveryId)).toBe("not_found");
    await deny(other);
    await world.harness.run();
    expect(await resend(other, deliveryId)).toBe("not_found");
    expect(requestIds().length).toBe(2);
  });

  test("needs an endpoint that is active and has a URL", async () => {
    const { connection, deliveryId } = await ended(404);
    const { connectionId } = connection;
    await world.home.database.transaction((tx) => pauseEndpoint(tx, connectionId, now()));
    expect(await resend(connection, deliveryId)).toBe("callback_inactive");
    const connectionRow = world.home.database("connections").where({ connection_id: connectionId });
    await connectionRow.update({ callback_url: null });
    expect(await resend(connection, deliveryId)).toBe("no_callback");
    expect(await states(connection)).toEqual(["rejected"]);
  });
});
