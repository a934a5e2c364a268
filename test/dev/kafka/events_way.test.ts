import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { eventsEnvironment, prepareEvents } from "../../../src/dev/kafka/events.ts";
import { UserError } from "../../../src/dev/user_error.ts";
import { makeConnection } from "../../events/support/connection.ts";
import { useDatabase } from "../../events/support/database.ts";
import { append, deniedEvent } from "../../events/support/events.ts";

const home = useDatabase();
const embedded = eventsEnvironment(undefined);
beforeEach(() => home.database.raw("truncate outbox, published_events, inbox"));

const way = async () => (await home.database("event_way").first())?.way;

test("eventsEnvironment selects the event transport and Kafka's address", () => {
  expect(embedded).toEqual({ EVENTS: "embedded" });
  expect(eventsEnvironment("127.0.0.1:9092")).toEqual({
    EVENTS: "kafka",
    KAFKA_BROKERS: "127.0.0.1:9092",
    KAFKA_REPLICATION: "1",
  });
});

test("prepareEvents refuses to switch from Kafka while events still wait there", async () => {
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "one"));
  await append(home.database, deniedEvent(connection, "two"));
  await home.database("event_way").update({ way: "kafka" });
  const refusal = await prepareEvents(home.url, embedded).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(UserError);
  expect(refusal).toMatchObject({
    message: "2 events of the last start, with --kafka, are not delivered yet",
    remedy: expect.stringMatching(/^Start with --kafka again, /),
  });
  expect(await way()).toBe("kafka");
});

test("prepareEvents moves unread events from Kafka to the outbox and switches the transport", async () => {
  await home.database("event_way").update({ way: "kafka" });
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "read"));
  await append(home.database, deniedEvent(connection, "unread"));
  const rows = await home.database("outbox").orderBy("id");
  await home.database("outbox").delete();
  const published = rows.map(({ id, ...row }) => ({ ...row, published_at: new Date() }));
  await home.database("published_events").insert(published);
  const [read, unread] = rows.map(({ event_id }) => event_id);
  const handled = { event_id: read ?? randomUUID(), consumer: "webhooks", handled_at: new Date() };
  await home.database("inbox").insert(handled);
  await prepareEvents(home.url, embedded);
  expect([await way(), await home.database("outbox").pluck("event_id")]).toEqual(["embedded", [unread]]);
});
