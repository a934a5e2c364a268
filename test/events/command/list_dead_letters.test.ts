import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import type { EventsCommands } from "../../../src/events/command/events_command.ts";
import { appendEvent } from "../../../src/events/outbox.ts";
import { toEvent } from "../../../src/events/relay.ts";
import { makeConnection, secretBox } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { createdEvent } from "../support/events.ts";
import { call, json, letter } from "./command_world.ts";

const home = useDatabase();
beforeEach(() => home.database("dead_letters").delete());

test("the list of dead letters has pages, newest first, and filters", async () => {
  const at = (hour: number) => ({ at: new Date(`2026-11-2${hour}T00:00:00Z`) });
  const one = await letter(home, {}, at(1));
  const two = await letter(home, { type: "delegation.revoked" }, { ...at(2), consumer: "notices" });
  const three = await letter(home, {}, at(3));
  const list = async (options = {}) =>
    json(await call(home, (commands) => commands.listLetters({ json: true, ...options })));
  const idsOf = (page: { items: { event_id: string }[] }) => page.items.map(({ event_id }) => event_id);
  expect(idsOf(await list())).toEqual([three.eventId, two.eventId, one.eventId]);
  const page = await list({ limit: "2" });
  expect(idsOf(page)).toEqual([three.eventId, two.eventId]);
  const next = await list({ limit: "2", cursor: page.next_cursor });
  expect([idsOf(next), next.next_cursor]).toEqual([[one.eventId], null]);
  expect(idsOf(await list({ consumer: "notices" }))).toEqual([two.eventId]);
  expect(idsOf(await list({ type: "delegation.revoked" }))).toEqual([two.eventId]);
  expect(idsOf(await list({ since: "2026-11-22T00:00:00Z" }))).toEqual([three.eventId, two.eventId]);
  expect(idsOf(await list({ until: "2026-11-22T00:00:00Z" }))).toEqual([one.eventId]);
  expect((await list({ since: "2026-11-22T00:00:00Z" })).items[1]).toEqual({
    event_id: two.eventId,
    consumer: "notices",
    type: "delegation.revoked",
    aggregate_type: "connection",
    aggregate_id: two.aggregateId,
    sequence: 1,
    happened_at: "2026-11-20T10:00:00.000Z",
    put_aside_at: "2026-11-22T00:00:00.000Z",
    reason: "TypeError: no",
    origin: null,
    on_topic_since: null,
  });
  const lines = await call(home, (commands) => commands.listLetters({ limit: "1" }));
  expect(lines.out).toMatch(
    new RegExp(
      `^2026-11-23T00:00:00.000Z {2}webhooks {2}delegation.denied {2}${three.eventId} {2}TypeError: no\nFor more: --cursor \\S+\n$`,
    ),
  );
});

test("the list contains each dead letter exactly once if two dead letters of one event have the same time", async () => {
  const at = new Date();
  const event = await letter(home, {}, { at });
  await letter(home, event, { at, consumer: "notices" });
  const first = json(await call(home, (commands) => commands.listLetters({ limit: "1", json: true })));
  const cursor = first.next_cursor;
  const second = json(await call(home, (commands) => commands.listLetters({ cursor, json: true })));
  const consumers = [...first.items, ...second.items].map(({ consumer }) => consumer);
  expect(consumers).toEqual(["webhooks", "notices"]);
});

test("a dead letter shows no secret of its event", async () => {
  const connection = await makeConnection(home.database, null);
  const apiKey = `dpz_${randomUUID()}`;
  await home.database.transaction((tx) =>
    appendEvent(tx, secretBox, createdEvent(connection, apiKey), new Date()),
  );
  const row = await home.database("outbox").where({ aggregateid: connection.connectionId }).first();
  const event = await letter(home, row && toEvent(row));
  const shown = await call(home, (commands) => commands.showLetters({ eventId: event.eventId }));
  const asJson = await call(home, (commands) => commands.showLetters({ eventId: event.eventId, json: true }));
  expect(shown.out).toMatch(/^Payload {4}\{"event":"connection.created"/m);
  expect(json(asJson).items[0].payload).toBe(event.payload);
  for (const secret of [apiKey, connection.secret]) {
    expect(shown.out + asJson.out).not.toContain(secret);
  }
});

test("the show command prints the consumer, the reason and the position in Kafka", async () => {
  const event = await letter(home, {}, { at: new Date("2026-11-21T00:00:00Z") });
  const origin = { topic: "deputize.lifecycle.v1", partition: 3, offset: "17" };
  await home
    .database("dead_letters")
    .update({ origin: JSON.stringify(origin) as never, carried_at: new Date("2026-11-21T00:00:01Z") });
  const { status, out } = await call(home, (commands) =>
    commands.showLetters({ eventId: event.eventId.toUpperCase() }),
  );
  expect([status, out.split("\n")]).toEqual([
    0,
    [
      `Event      ${event.eventId}`,
      "Type       delegation.denied",
      `Of         connection ${event.aggregateId}, its event number 1`,
      "Happened   2026-11-20T10:00:00.000Z",
      "Consumer   webhooks",
      "Put aside  2026-11-21T00:00:00.000Z",
      "Reason     TypeError: no",
      "Came from  deputize.lifecycle.v1, partition 3, offset 17",
      "On topic   since 2026-11-21T00:00:01.000Z",
      `Payload    ${event.payload}`,
      "",
    ],
  ]);
});

test("untrusted text cannot move a terminal's cursor or change the direction of a line", async () => {
  const csi = "\u009b2J";
  const event = await letter(home, { payload: `\u001b[31m${csi}\u202e` }, { reason: "a\nb" });
  const shown = await call(home, (commands) => commands.showLetters({ eventId: event.eventId }));
  expect(shown.out).toContain("Payload    \\u001b[31m\\u009b2J\\u202e\n");
  expect(shown.out).toContain("Reason     a\\u000ab\n");
  const asJson = await call(home, (commands) => commands.showLetters({ eventId: event.eventId, json: true }));
  expect(asJson.out).not.toMatch(/[\u0080-\u009f\u202e]/);
  expect(json(asJson).items[0].payload).toBe(event.payload);
});

test.each([
  [{ since: "yesterday" }, "--since is not a time such as 2026-11-24T09:30:00Z"],
  [{ until: "2026-11-24" }, "--until is not a time such as 2026-11-24T09:30:00Z"],
  [{ limit: "0" }, "--limit is not a number from 1 to 100, or --cursor is too long"],
  [{ cursor: "x" }, "cursor: is not a cursor of this list"],
])("the list command rejects %j in one line", async (options, message) => {
  expect(await call(home, (commands) => commands.listLetters(options))).toEqual({
    status: 2,
    out: "",
    err: `deputize events: ${message}\n`,
  });
});

test.each<[string, (commands: EventsCommands) => Promise<number>]>([
  ["list", (commands) => commands.listLetters({ since: "yesterday" })],
  ["list", (commands) => commands.listLetters({ limit: "0" })],
  ["show", (commands) => commands.showLetters({ eventId: "x" })],
  ["replay of named letters", (commands) => commands.replayLetters({ eventIds: ["x"] })],
  ["replay of letters", (commands) => commands.replayLetters({ eventIds: [], until: "today" })],
  ["replay of a range", (commands) => commands.replayRange({ from: "2026-11-24", to: "today" })],
])("the command %s rejects a wrong value before it connects to the database", async (_, work) => {
  const nowhere = new URL(home.url);
  nowhere.port = "1";
  const ended = await call({ url: nowhere.href }, work);
  expect([ended.status, ended.out]).toEqual([2, ""]);
  expect(ended.err).toMatch(/^deputize events: .* is not .*\n$/);
});

test("a missing dead letter and an unavailable database are reported in one line", async () => {
  const eventId = randomUUID();
  expect(await call(home, (commands) => commands.showLetters({ eventId }))).toEqual({
    status: 1,
    out: "",
    err: `deputize events: There is no dead letter of the event ${eventId}\n`,
  });
  const odd = await call(home, (commands) => commands.showLetters({ eventId: "x" }));
  expect([odd.status, odd.err]).toEqual([2, `deputize events: "x" is not an event's id\n`]);
  expect((await call(home, (commands) => commands.listLetters({}))).out).toBe("No dead letters\n");
  const nowhere = new URL(home.url);
  nowhere.port = "1";
  const away = await call({ url: nowhere.href }, (commands) => commands.listLetters({}));
  expect([away.status, away.out]).toEqual([3, ""]);
  expect(away.err).toMatch(/^deputize events: the database could not be used \(.*\)\n$/);
});
