import { addSeconds } from "../../../src/clock.ts";
import { ensureEndpoints } from "../../../src/webhooks/endpoint.ts";
import { makeConnection } from "../../events/support/connection.ts";
import { append, deniedEvent } from "../../events/support/events.ts";
import type { TestApi } from "../../support/api.ts";
import { insertDelivery } from "../../support/deliveries.ts";
import { administratorOf } from "../../support/service_world.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/** Creates a service administrator of an installation with a suspended callback and a waiting event. */
export async function administratorViewer(api: TestApi): Promise<Seen> {
  const { client } = await administratorOf(api);
  const now = api.clock.now();
  const connection = await makeConnection(api.db, "https://hooks.example.test:8443/deputize");
  await ensureEndpoints(api.db, [connection.connectionId], now);
  await api
    .db("webhook_endpoints")
    .where({ connection_id: connection.connectionId })
    .update({ state: "suspended", suspend_reason: "gone", suspended_at: addSeconds(now, -600) });
  await insertDelivery(api.db, connection.connectionId, { at: now, state: "held" });
  await append(api.db, deniedEvent(connection, "waits"), addSeconds(now, -100));
  return { ...browserOf(api, client), ids: { connection: connection.connectionId } };
}
