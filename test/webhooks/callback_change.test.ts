import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { setCallback } from "../../src/platforms/change_platform.ts";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";
import { endpointIdOf } from "../../src/webhooks/endpoint.ts";
import type { TestConnection } from "../events/support/connection.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, states } = world;
const callbacks = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });

/** Sets another URL of the same receiver. */
async function replaceUrl({ accountId, connectionId }: TestConnection): Promise<void> {
  const deps = { db: world.home.database, callbacks, clock: world.harness.clock };
  await setCallback(deps, accountId, connectionId, world.receiver.url.replace("/hook", "/new"));
}

const endpointOf = ({ connectionId }: TestConnection) =>
  world.home
    .database("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connectionId) })
    .first();

test("a former URL's 410, answered after its change, does not suspend the new one", async () => {
  const connection = await connect();
  world.receiver.reply = async ({ path }) => {
    if (path === "/new") return 204;
    await replaceUrl(connection);
    return 410;
  };
  await deny(connection);
  await world.harness.run();
  expect(await endpointOf(connection)).toMatchObject({ state: "active", suspended_at: null });
  expect(world.receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/new"]);
  expect(await states(connection)).toEqual(["delivered"]);
});

test("a former URL's failures count for the new one, so that no changes keep the breaker closed", async () => {
  const connection = await connect();
  world.receiver.reply = async () => {
    await replaceUrl(connection);
    return 500;
  };
  await deny(connection);
  await world.harness.run();
  expect(await endpointOf(connection)).toMatchObject({ failures_in_row: 1 });
});

test("a suspension that commits while a new URL is set is ended by it", async () => {
  const connection = await connect();
  await deny(connection);
  await world.harness.run();
  const suspending = await world.home.database.transaction();
  const now = world.harness.clock.now();
  await suspending("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connection.connectionId) })
    .update({ state: "suspended", suspended_at: now, suspend_reason: "gone" });
  const replacing = replaceUrl(connection);
  await sleep(200);
  await suspending.commit();
  await replacing;
  expect(await endpointOf(connection)).toMatchObject({ state: "active", suspended_at: null });
});
