import { describe, expect, test } from "vitest";
import { setCallback } from "../../src/platforms/change_platform.ts";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";
import { claimDeliveries, reapLost } from "../../src/webhooks/claim.ts";
import { endpointIdOf, ensureEndpoints, pauseEndpoint, resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import { untilBlockedIn } from "../support/held_rows.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;
const now = () => world.harness.clock.now();

const pause = ({ connectionId }: TestConnection) =>
  world.home.database.transaction((tx) => pauseEndpoint(tx, connectionId, now()));
const resume = ({ connectionId }: TestConnection, backlog: "replay" | "discard" = "replay") =>
  world.home.database.transaction((tx) => resumeEndpoint(tx, connectionId, backlog, now()));
const endpointOf = async ({ connectionId }: TestConnection) => {
  const row = await world.home
    .database("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connectionId) })
    .first();
  if (row === undefined) throw new Error("no such endpoint");
  return row;
};

const callbacks = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });

async function setUrl({ accountId, connectionId }: TestConnection, path = "/new"): Promise<void> {
  const deps = { db: world.home.database, callbacks, clock: world.harness.clock };
  await setCallback(deps, { accountId, connectionId }, world.receiver.url.replace("/hook", path));
}

describe("a paused endpoint", () => {
  test("holds waiting and new deliveries, and sends them in order after the resume", async () => {
    const connection = await connect();
    await deny(connection, "first");
    await world.harness.relay();
    await pause(connection);
    await deny(connection, "second");
    await world.harness.run();
    expect([requestIds(), await states(connection)]).toEqual([[], ["held", "held"]]);
    await resume(connection);
    await world.harness.deliver();
    expect([requestIds(), await states(connection)]).toEqual([
      ["first", "second"],
      ["delivered", "delivered"],
    ]);
  });

  test("holds its first event, even if it was paused twice before", async () => {
    const connection = await connect();
    await pause(connection);
    await pause(connection);
    await deny(connection);
    await world.harness.run();
    expect(await states(connection)).toEqual(["held"]);
  });

  test("cancels and erases held deliveries if the resume discards them", async () => {
    const connection = await connect();
    await pause(connection);
    await deny(connection);
    await world.harness.relay();
    await resume(connection, "discard");
    await deny(connection, "later");
    await world.harness.run();
    expect([requestIds(), await states(connection)]).toEqual([["later"], ["cancelled", "delivered"]]);
    const [row] = await world.home.database("webhook_deliveries").where({ state: "cancelled" });
    expect([row?.body, row?.body_sealed, row?.settled_at]).toEqual([null, null, now()]);
  });

  test("still has an open breaker after the resume, so that pausing does not make requests more frequent", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    for (let n = 0; n < 5; n++) await deny(connection, `req-${n}`);
    await world.harness.run();
    const { breaker_open_until: before, concurrency } = await endpointOf(connection);
    expect(before).not.toBeNull();
    await pause(connection);
    await resume(connection);
    expect(await endpointOf(connection)).toMatchObject({
      ...{ state: "active", breaker_open_until: before, concurrency },
      failing_since: null,
    });
    expect(await claimDeliveries(world.home.database, 10, now())).toEqual([]);
  });

  test("remains paused when its URL is set, unlike a suspended endpoint", async () => {
    const connection = await connect();
    await pause(connection);
    await setUrl(connection, "/hook");
    expect((await endpointOf(connection)).state).toBe("paused");
    await resume(connection);
    world.receiver.reply = () => 410;
    await deny(connection);
    await world.harness.run();
    expect((await endpointOf(connection)).state).toBe("suspended");
    await setUrl(connection, "/hook");
    expect((await endpointOf(connection)).state).toBe("active");
  });

  test("can be resumed as usual if it was suspended before", async () => {
    const connection = await connect();
    world.receiver.reply = () => 410;
    await deny(connection);
    await world.harness.run();
    await pause(connection);
    expect(await endpointOf(connection)).toMatchObject({
      ...{ state: "paused", suspended_at: null, suspend_reason: null },
    });
    world.receiver.reply = () => 204;
    await resume(connection);
    await world.harness.deliver();
    expect(await states(connection)).toEqual(["delivered"]);
  });
});

describe("an attempt that is running when its endpoint is paused", () => {
  test.each([
    [204, "delivered"],
    [404, "rejected"],
    [500, "held"],
    [410, "held"],
  ])("with a response of %i leaves the delivery %s and the endpoint paused", async (status, state) => {
    const connection = await connect();
    world.receiver.reply = async () => {
      await pause(connection);
      return status;
    };
    await deny(connection);
    await world.harness.run();
    expect([await states(connection), (await endpointOf(connection)).state]).toEqual([[state], "paused"]);
    expect(await world.home.database("outbox").where({ type: "webhook.suspended" })).toEqual([]);
    world.receiver.reply = () => 204;
    await resume(connection);
    await world.harness.deliver();
    expect(await states(connection)).toEqual([state === "held" ? "delivered" : state]);
  });

  test("without a result leaves the delivery held", async () => {
    const connection = await connect();
    await deny(connection);
    await world.harness.relay();
    await claimDeliveries(world.home.database, 1, now());
    await pause(connection);
    expect(await states(connection)).toEqual(["sending"]);
    world.harness.clock.advance(60);
    expect(await reapLost(world.home.database, now())).toBe(1);
    expect(await states(connection)).toEqual(["held"]);
  });

  test("without a result does not leave the delivery held if a resume commits at the same time", async () => {
    const connection = await connect();
    await deny(connection);
    await world.harness.relay();
    await claimDeliveries(world.home.database, 1, now());
    await pause(connection);
    world.harness.clock.advance(60);
    const { database } = world.home;
    const resuming = await database.transaction();
    await resumeEndpoint(resuming, connection.connectionId, "replay", now());
    expect(await reapLost(database, now())).toBe(0);
    await resuming.commit();
    expect(await reapLost(database, now())).toBe(1);
    expect(await states(connection)).toEqual(["pending"]);
  });
});

test("the worker claims nothing for an endpoint whose pause commits during the claim", async () => {
  const connection = await connect();
  const { database } = world.home;
  for (let round = 0; round < 20; round++) {
    await deny(connection, `req-${round}`);
    await world.harness.relay();
    let paused = false;
    const claims = Array.from({ length: 4 }, async () => {
      const startedPaused = paused;
      const claimed = await claimDeliveries(database, 10, now());
      return startedPaused ? claimed.length : 0;
    });
    await Promise.all([pause(connection).then(() => (paused = true)), ...claims]);
    expect(await claimDeliveries(database, 10, now())).toEqual([]);
    expect((await states(connection)).filter((state) => state === "pending")).toEqual([]);
    await resume(connection, "discard");
    await database("webhook_deliveries").delete();
  }
});

test("a late 410 from the previous URL does not suspend the endpoint of the new URL", async () => {
  const connection = await connect();
  world.receiver.reply = async ({ path }) => {
    if (path === "/new") return 204;
    await setUrl(connection);
    return 410;
  };
  await deny(connection);
  await world.harness.run();
  expect(await endpointOf(connection)).toMatchObject({ state: "active", suspended_at: null });
  expect(world.receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/new"]);
  expect(await states(connection)).toEqual(["delivered"]);
});

test("failures of the previous URL count for the new URL, so that changing URLs cannot keep the breaker closed", async () => {
  const connection = await connect();
  world.receiver.reply = async () => {
    await setUrl(connection);
    return 500;
  };
  await deny(connection);
  await world.harness.run();
  expect(await endpointOf(connection)).toMatchObject({ failures_in_row: 1 });
});

test("setting a new URL ends a suspension that commits at the same time", async () => {
  const connection = await connect();
  await deny(connection);
  await world.harness.run();
  const suspending = await world.home.database.transaction();
  const now = world.harness.clock.now();
  await suspending("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connection.connectionId) })
    .update({ state: "suspended", suspended_at: now, suspend_reason: "gone" });
  const replacing = setUrl(connection);
  await untilBlockedIn(world.home.database);
  await suspending.commit();
  await replacing;
  expect(await endpointOf(connection)).toMatchObject({ state: "active", suspended_at: null });
});

test("concurrent transactions create one endpoint without an error", async () => {
  for (let round = 0; round < 30; round++) {
    const { connectionId } = await makeConnection(world.home.database, "https://shop.example/hook");
    const makes = Array.from({ length: 6 }, () =>
      world.home.database.transaction((tx) => ensureEndpoints(tx, [connectionId], new Date())),
    );
    await Promise.all(makes);
    const made = await world.home.database("webhook_endpoints").where({ connection_id: connectionId });
    expect(made).toHaveLength(1);
  }
});
