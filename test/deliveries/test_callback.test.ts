import { expect, test } from "vitest";
import { testCallback } from "../../src/deliveries/callback_routes.ts";
import { createSendingRates } from "../../src/deliveries/sending_limits.ts";
import { secretBox } from "../events/support/connection.ts";
import { deliveryWorld } from "../webhooks/delivery_world.ts";

const world = deliveryWorld();

test("a test event arrives like any event, with the delivery id from the API's response", async () => {
  const { accountId, connectionId } = await world.connect();
  const db = world.home.database;
  const { clock } = world.harness;
  const deps = { db, clock, secretBox, sendingRates: createSendingRates(db) };
  const answer = await testCallback(deps, { accountId, connectionId });
  await world.harness.run();
  expect(world.receiver.requests).toMatchObject([
    {
      ...{ deliveryId: answer.delivery_id, faults: [] },
      event: {
        ...{ event: "callback.test", connection_id: connectionId, org_id: accountId },
        sent_at: clock.now().toISOString(),
      },
    },
  ]);
  const [row] = await db("webhook_deliveries");
  expect(row).toMatchObject({ ...answer, event_type: "callback.test", state: "delivered" });
});
