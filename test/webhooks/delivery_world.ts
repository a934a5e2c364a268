import { afterEach, beforeEach } from "vitest";
import { makeConnection, makeCustomer, type TestConnection } from "../events/support/connection.ts";
import { useDatabase } from "../events/support/database.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { type Harness, startHarness } from "../events/support/harness.ts";
import { type Receiver, startReceiver } from "../events/support/receiver.ts";

/** A receiver and a harness that delivers to it, created again for each test. */
export type DeliveryWorld = {
  home: ReturnType<typeof useDatabase>;
  harness: Harness;
  receiver: Receiver;
  /** The receiver knows the connection's webhook secret. */
  connect(): Promise<TestConnection>;
  /** Connects a customer to the platform of the connection. */
  customer(own: TestConnection): Promise<TestConnection>;
  deny(connection: TestConnection, id?: string): Promise<unknown>;
  requestIds(): unknown[];
  states(connection: TestConnection): Promise<string[]>;
};

/** Creates the receiver and harness for a test file. */
export function deliveryWorld(): DeliveryWorld {
  const home = useDatabase();
  const world = {
    home,
    async connect() {
      const connection = await makeConnection(home.database, world.receiver.url);
      world.receiver.secret = connection.secret;
      return connection;
    },
    customer: (own) => makeCustomer(home.database, own),
    deny: (connection, id = "req-1") =>
      append(home.database, deniedEvent(connection, id), world.harness.clock.now()),
    requestIds: () => world.receiver.requests.map(({ event }) => event.request_id),
    states: async ({ connectionId }) =>
      (await world.harness.deliveries(connectionId)).map((delivery) => delivery.state),
  } as DeliveryWorld;

  beforeEach(async () => {
    await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
    world.harness = await startHarness(home);
    world.receiver = await startReceiver(() => world.harness.clock.now().getTime());
  });
  afterEach(() => world.receiver.close());
  return world;
}
