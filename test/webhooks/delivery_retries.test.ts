import { describe, expect, test } from "vitest";
import { setCallback } from "../../src/platforms/change_platform.ts";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";
import { resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import { makeConnection } from "../events/support/connection.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;

describe("results of attempts", () => {
  test.each([
    [200, "delivered", "delivered", undefined],
    [299, "delivered", "delivered", undefined],
    [302, "pending", "failed", 5],
    [400, "rejected", "rejected", undefined],
    [401, "rejected", "rejected", undefined],
    [404, "rejected", "rejected", undefined],
    [408, "pending", "failed", 60],
    [410, "held", "gone", undefined],
    [425, "pending", "failed", 60],
    [429, "pending", "failed", 60],
    [500, "pending", "failed", 5],
    [503, "pending", "failed", 60],
  ])(
    "a response of %i gives the delivery the state %s and the attempt the outcome %s",
    async (status, state, outcome, delay) => {
      const connection = await connect();
      world.receiver.reply = (_request, response) =>
        void response.writeHead(status, { Location: world.receiver.url }).end("why");
      await deny(connection);
      await world.harness.run();
      expect(await world.harness.deliveries(connection.connectionId)).toMatchObject([
        { state, attempts: [{ outcome, status, detail: null, excerpt: "why" }] },
      ]);
      expect(world.receiver.requests.length).toBe(1);
      const next = await world.harness.nextAttempt();
      expect(next && (next.getTime() - world.harness.clock.now().getTime()) / 1000).toBe(delay);
    },
  );

  test("the dispatcher obeys Retry-After", async () => {
    const connection = await connect();
    world.receiver.reply = (_request, response) =>
      void response.writeHead(503, { "Retry-After": "100" }).end();
    await deny(connection);
    await world.harness.run();
    expect(await world.harness.nextAttempt()).toEqual(
      new Date(world.harness.clock.now().getTime() + 100_000),
    );
    expect(await states(connection)).toEqual(["pending"]);
  });

  /** `statuses` are the receiver's answers, one for each attempt. Returns the final state and outcomes. */
  async function answers(...statuses: number[]) {
    const connection = await connect();
    const rest = [...statuses];
    world.receiver.reply = (_request, response) =>
      void response.writeHead(rest.shift() ?? 204, { "Retry-After": "90" }).end();
    await deny(connection);
    await world.harness.run();
    for (let next = await world.harness.nextAttempt(); next; next = await world.harness.nextAttempt()) {
      world.harness.clock.set(next);
      await world.harness.deliver();
    }
    const [delivery] = await world.harness.deliveries(connection.connectionId);
    return [delivery?.state, ...(delivery?.attempts ?? []).map(({ outcome }) => outcome)];
  }

  test.each([408, 425, 429])(
    "a response of %i causes one more attempt after Retry-After, and then a rejection",
    async (status) => {
      const start = world.harness.clock.now().getTime();
      expect(await answers(status, status, status)).toEqual(["rejected", "failed", "rejected"]);
      expect(world.harness.clock.now().getTime() - start).toBe(90_000);
      expect(world.receiver.requests.length).toBe(2);
      expect(await answers(status)).toEqual(["delivered", "failed", "delivered"]);
    },
  );

  test("a second 408, 425 or 429 rejects the delivery, even after other failures", async () => {
    expect(await answers(429, 408)).toEqual(["rejected", "failed", "rejected"]);
    expect(await answers(425, 500, 500, 429)).toEqual(["rejected", "failed", "failed", "failed", "rejected"]);
    expect(await answers(429, 500, 503)).toEqual(["delivered", "failed", "failed", "failed", "delivered"]);
    expect(await answers(429, 404)).toEqual(["rejected", "failed", "rejected"]);
  });

  test("the breaker of an endpoint opens if its receiver always answers 429", async () => {
    const connection = await connect();
    world.receiver.reply = () => 429;
    for (let n = 0; n < 3; n++) await deny(connection, `req-${n}`);
    await world.harness.run();
    world.harness.clock.advance(60);
    await world.harness.deliver();
    expect(await states(connection)).toContain("rejected");
    const endpoint = await world.home.database("webhook_endpoints").first();
    expect(endpoint).toMatchObject({ failures_in_row: 5, breaker_open_seconds: 60 });
  });

  test.each([
    ["a URL without a receiver", "http://127.0.0.1:8/", "pending", "failed", "ECONNREFUSED"],
    [
      "a forbidden address",
      "http://10.0.0.1/",
      "blocked",
      "blocked",
      "the host must be a name that is not this machine's own",
    ],
  ])(
    "an attempt to send to %s is recorded with the reason for its failure",
    async (_, url, state, outcome, detail) => {
      const connection = await makeConnection(world.home.database, url);
      await deny(connection);
      await world.harness.run();
      expect(await world.harness.deliveries(connection.connectionId)).toMatchObject([
        { state, attempts: [{ outcome, status: null, detail, excerpt: null }] },
      ]);
    },
  );
});

describe("a receiver that keeps failing", () => {
  test("receives 10 attempts at the scheduled times, after which the delivery fails", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    await deny(connection);
    const start = world.harness.clock.now().getTime();
    const moments: number[] = [];
    await world.harness.run();
    for (let next = await world.harness.nextAttempt(); next; next = await world.harness.nextAttempt()) {
      moments.push((next.getTime() - start) / 1000);
      world.harness.clock.set(new Date(next.getTime() - 1));
      const before = world.receiver.requests.length;
      await world.harness.deliver();
      expect(world.receiver.requests.length).toBe(before);
      world.harness.clock.set(next);
      await world.harness.deliver();
      expect(world.receiver.requests.length).toBe(before + 1);
    }
    expect(moments).toEqual([5, 305, 2105, 9305, 27305, 63305, 113705, 185705, 272105]);
    const [delivery] = await world.harness.deliveries(connection.connectionId);
    expect([delivery!.state, delivery!.attempts.length, world.receiver.requests.length]).toEqual([
      "failed",
      10,
      10,
    ]);
    expect(world.receiver.requests.every(({ faults }) => faults.length === 0)).toBe(true);
  });

  test("becomes suspended after 120 h, and receives all held deliveries after the resume", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    await deny(connection, "first");
    await world.harness.run();
    world.harness.clock.advance(100 * 3600);
    await deny(connection, "second");
    await world.harness.run();
    world.harness.clock.advance(20 * 3600);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["held", "held"]);
    await deny(connection, "third");
    const before = world.receiver.requests.length;
    world.harness.clock.advance(3600);
    await world.harness.run();
    expect([world.receiver.requests.length, await states(connection)]).toEqual([
      before,
      ["held", "held", "held"],
    ]);
    world.receiver.reply = () => 204;
    await world.home.database.transaction((tx) =>
      resumeEndpoint(tx, connection.connectionId, "replay", world.harness.clock.now()),
    );
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["delivered", "delivered", "delivered"]);
    expect(new Set(requestIds())).toEqual(new Set(["first", "second", "third"]));
  });

  test("receives nothing more after a 410, and held deliveries can be discarded", async () => {
    const connection = await connect();
    world.receiver.reply = () => 410;
    await deny(connection, "first");
    await world.harness.run();
    await deny(connection, "second");
    await world.harness.run();
    expect([world.receiver.requests.length, await states(connection)]).toEqual([1, ["held", "held"]]);
    const now = world.harness.clock.now();
    await world.home.database.transaction((tx) =>
      resumeEndpoint(tx, connection.connectionId, "discard", now),
    );
    world.receiver.reply = () => 204;
    await deny(connection, "third");
    await world.harness.run();
    expect(await states(connection)).toEqual(["cancelled", "cancelled", "delivered"]);
    expect(requestIds()).toEqual(["first", "third"]);
  });

  test("receives a delivery at most ten times if it answers 410 again after every resume", async () => {
    const connection = await connect();
    world.receiver.reply = () => 410;
    await deny(connection);
    await world.harness.run();
    for (let n = 0; n < 12; n++) {
      await world.home.database.transaction((tx) =>
        resumeEndpoint(tx, connection.connectionId, "replay", world.harness.clock.now()),
      );
      await world.harness.deliver();
    }
    expect([world.receiver.requests.length, await states(connection)]).toEqual([10, ["failed"]]);
  });

  test("becomes active again with a new callback URL, which receives the held delivery", async () => {
    const connection = await connect();
    world.receiver.reply = () => 410;
    await deny(connection, "first");
    await world.harness.run();
    const callbacks = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
    const deps = { db: world.home.database, callbacks, clock: world.harness.clock };
    const url = world.receiver.url.replace("/hook", "/new");
    await setCallback(deps, connection, url);
    world.receiver.reply = () => 204;
    await world.harness.deliver();
    expect(world.receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/new"]);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("uses up no attempts while the breaker is open, and receives one probe afterwards", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    for (let n = 0; n < 8; n++) await deny(connection, `req-${n}`);
    await world.harness.run();
    expect(world.receiver.requests.length).toBe(5);
    await world.home.database("webhook_endpoints").update({ concurrency: 8 });
    world.harness.clock.advance(59.999);
    await world.harness.deliver();
    expect(world.receiver.requests.length).toBe(5);
    world.harness.clock.advance(0.001);
    await world.harness.deliver();
    expect(world.receiver.requests.length).toBe(6);
    world.harness.clock.advance(119.999);
    await world.harness.deliver();
    expect(world.receiver.requests.length).toBe(6);
    world.receiver.reply = () => 204;
    world.harness.clock.advance(0.001);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(Array(8).fill("delivered"));
    expect(world.receiver.requests.length).toBe(14);
  });
});
