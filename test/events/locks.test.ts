import { randomUUID } from "node:crypto";
import { Pool } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { adoptCarrier } from "../../src/events/carrier.ts";
import { replayLetters } from "../../src/events/command/replay_dead_letters.ts";
import { takeOffOutbox } from "../../src/events/published.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { readers } from "../../src/installation/readers.ts";
import { heldRows } from "../support/held_rows.ts";
import { letter } from "./command/command_world.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent } from "./support/events.ts";

const home = useDatabase();
let pool: Pool;
beforeAll(() => {
  pool = new Pool({ connectionString: home.url, max: 2 });
});
afterAll(() => pool.end());
beforeEach(async () => {
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
});
const { hold, untilBlocked } = heldRows(() => pool);
const CHOOSE = "update event_way set way = $1";
const carrier = async () => (await home.database("event_way").first("way"))?.way;

describe("a worker", () => {
  test("adopts its carrier although another worker adopts a different one at the same moment", async () => {
    const other = await hold(CHOOSE, ["kafka"]);
    const adopting = adoptCarrier(home.database, { kind: "embedded" }, readers);
    await Promise.race([adopting, untilBlocked()]);
    await other.commit();
    await adopting;
    expect(await carrier()).toBe("embedded");
  });

  test("keeps events in the outbox if the carrier changes while it publishes them", async () => {
    const workerId = randomUUID();
    await createShardLeases(home.database, workerId).renew();
    await append(home.database, deniedEvent(await makeConnection(home.database, null), "req-0"));
    const rows = await home.database("outbox as o").join("relay_shards as s", "s.shard", "o.shard");
    const other = await hold(CHOOSE, ["kafka"]);
    const taking = takeOffOutbox(home.database, rows as never, { workerId, carrier: "embedded" });
    await Promise.race([taking, untilBlocked()]);
    await other.commit();
    await taking;
    await home.database("event_way").update({ way: "embedded" });
    expect(await home.database("outbox").delete()).toBe(1);
  });

  test("takes free shards without waiting for one that another worker takes", async () => {
    const other = await hold("select from relay_shards where shard = 0 for update", []);
    const workerId = randomUUID();
    const renewing = createShardLeases(home.database, workerId).renew();
    await Promise.race([renewing, untilBlocked()]);
    const owned = await home.database("relay_shards").where({ owner: workerId }).pluck("shard");
    await other.commit();
    await renewing;
    expect(owned.toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });
});

test.each([
  ["all letters", { eventIds: [], all: true }],
  ["a named letter", { eventIds: [randomUUID()] }],
])("a replay of %s waits until another replay of dead letters ends", async (_, options) => {
  const [eventId = randomUUID()] = options.eventIds;
  await letter(home, { eventId });
  const other = await hold("select pg_advisory_xact_lock(hashtext('deputize.events.dead_letters'))", []);
  let hasEnded = false;
  const replaying = replayLetters(home.database, { clock: systemClock, readers }, options).then((report) => {
    hasEnded = true;
    return report;
  });
  await Promise.race([replaying, untilBlocked()]);
  expect(hasEnded).toBe(false);
  await other.commit();
  expect((await replaying).json).toMatchObject({ replayed: 1 });
});
