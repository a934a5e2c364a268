import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { endpointIdOf } from "../../src/webhooks/endpoint.ts";
import { insertDelivery, insertRecovery } from "../support/deliveries.ts";
import { spawnWorker, type WorkerProcess } from "./support/child.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { chances, printedSeed } from "./support/load.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { eventually } from "./support/time.ts";

const home = useDatabase();
const timing = { leaseSeconds: 1, claimSeconds: 3, reapSeconds: 0.3 };
const COUNT = 1500;
const KILLS = 6;
/** The maximum number of concurrent requests to one endpoint. */
const UNDER_WAY = 16;
let receiver: Receiver;
let worker: WorkerProcess | undefined;

afterEach(async () => {
  await worker?.kill("SIGKILL");
  await receiver.close();
});

test("a recovery continues after its worker is killed, and only requests in progress are repeated", async () => {
  const chance = chances(printedSeed());
  receiver = await startReceiver();
  const connection = await makeConnection(home.database, receiver.url);
  receiver.secret = connection.secret;
  const at = addSeconds(new Date(), -60);
  const seed = await insertDelivery(home.database, connection.connectionId, { at });
  await home.database.raw(
    `insert into webhook_deliveries (delivery_id, endpoint_id, event_id, event_type, aggregate_seq, body, state, attempts,
                                     created_at, settled_at)
     select gen_random_uuid(), endpoint_id, event_id, event_type, n, body, state, attempts,
            created_at + n * interval '1 ms', settled_at
     from webhook_deliveries, generate_series(2, :count::integer) n where delivery_id = :seed`,
    { count: COUNT, seed },
  );
  await insertRecovery(home.database, connection.connectionId, { since: at, until: new Date() });
  for (let kill = 0; kill < KILLS; kill++) {
    const before = receiver.requests.length;
    worker = await spawnWorker(home.urls, timing);
    await eventually("it sends", () => receiver.requests.length > before, 60);
    await sleep(chance() * 400);
    await worker.kill("SIGKILL");
    expect(receiver.requests.length).toBeLessThan(COUNT);
  }
  worker = await spawnWorker(home.urls, timing);
  const unfinished = () =>
    home
      .database("webhook_deliveries")
      .where({ endpoint_id: endpointIdOf(connection.connectionId) })
      .whereNot({ state: "delivered" });
  await eventually("all are delivered", async () => (await unfinished()).length === 0, 120);
  const recovery = () => home.database("webhook_recoveries").first();
  await eventually("the recovery is done", async () => (await recovery())?.state === "done");
  expect(await recovery()).toMatchObject({ examined: COUNT, resent: COUNT, left_out: 0 });
  const sent = receiver.requests.map(({ deliveryId }) => deliveryId);
  expect(new Set(sent).size).toBe(COUNT);
  expect(sent.length - COUNT).toBeLessThanOrEqual(KILLS * UNDER_WAY);
  expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
}, 280_000);
