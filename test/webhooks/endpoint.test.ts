import { expect, test } from "vitest";
import { ensureEndpoints } from "../../src/webhooks/endpoint.ts";
import { makeConnection } from "../events/support/connection.ts";
import { useDatabase } from "../events/support/database.ts";

const home = useDatabase();

test("several make a connection's endpoint at once, and none is refused", async () => {
  for (let round = 0; round < 100; round++) {
    const { connectionId } = await makeConnection(home.database, "https://shop.example/hook");
    const makes = Array.from({ length: 6 }, () =>
      home.database.transaction((tx) => ensureEndpoints(tx, [connectionId], new Date())),
    );
    await Promise.all(makes);
    const made = await home.database("webhook_endpoints").where({ connection_id: connectionId });
    expect(made).toHaveLength(1);
  }
});
