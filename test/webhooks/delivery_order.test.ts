import { describe, expect, test } from "vitest";
import { startHarness } from "../events/support/harness.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;

describe("order and isolation", () => {
  test("a receiver that accepts everything gets a connection's events in their order, one at a time", async () => {
    const connection = await connect();
    world.receiver.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
      return 204;
    };
    const ids = Array.from({ length: 30 }, (_, n) => `req-${n}`);
    for (const id of ids) await deny(connection, id);
    await world.harness.run();
    expect(requestIds()).toEqual(ids);
    expect(world.receiver.mostOpen).toBe(1);
  });

  test("one event that fails does not hold up those after it", async () => {
    const connection = await connect();
    world.receiver.reply = ({ event }) => (event.request_id === "bad" ? 500 : 204);
    for (const id of ["bad", "one", "two"]) await deny(connection, id);
    await world.harness.run();
    expect(await states(connection)).toEqual(["pending", "delivered", "delivered"]);
  });

  test("an endpoint gets as many concurrent requests as its limit says", async () => {
    const connection = await connect();
    world.receiver.reply = () => 404;
    for (let n = 0; n < 20; n++) await deny(connection, `req-${n}`);
    await world.harness.run();
    const now = world.harness.clock.now();
    await world.home
      .database("webhook_deliveries")
      .update({ state: "pending", settled_at: null, next_attempt_at: now });
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.receiver.mostOpen = 0;
    world.receiver.reply = async () => {
      if (world.receiver.open === 4) setTimeout(release, 100);
      await gate;
      return 404;
    };
    await world.harness.deliver();
    expect(world.receiver.mostOpen).toBe(4);
    expect(world.receiver.requests.length).toBe(40);
  });

  test("no more requests are under way at the same time than the process may have", async () => {
    world.harness = await startHarness(world.home, { limit: 3 });
    const connections = await Promise.all(Array.from({ length: 10 }, () => connect()));
    for (const connection of connections) await deny(connection);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.receiver.reply = async () => {
      if (world.receiver.open === 3) setTimeout(release, 100);
      await gate;
      return 204;
    };
    await world.harness.run();
    expect([world.receiver.mostOpen, world.receiver.requests.length]).toEqual([3, 10]);
  });

  test("endpoints take turns: one with many events does not keep the others waiting", async () => {
    world.harness = await startHarness(world.home, { limit: 2 });
    const busy = await connect();
    for (let n = 0; n < 20; n++) await deny(busy, "busy");
    const quiet = await Promise.all(Array.from({ length: 4 }, () => connect()));
    for (const connection of quiet) await deny(connection, "quiet");
    await world.harness.run();
    const lastQuiet = requestIds().lastIndexOf("quiet");
    expect(
      requestIds()
        .slice(0, lastQuiet)
        .filter((id) => id === "busy").length,
    ).toBeLessThanOrEqual(4);
    expect(world.receiver.requests.length).toBe(24);
  });
});
