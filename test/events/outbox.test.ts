import { afterAll, beforeAll, expect, test } from "vitest";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { appendEvent, appendEvents, type LifecycleEvent } from "../../src/events/outbox.ts";
import { eventSecretsContext } from "../../src/events/secrets.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { makeConnection, secretBox, type TestConnection } from "./support/connection.ts";

let home: TestDatabase;
let database: Database;
beforeAll(async () => {
  home = await migratedDatabase();
  database = openDatabase({ url: home.url, name: "test", onError: () => {} });
});
afterAll(async () => {
  await database?.destroy();
  await home?.drop();
});

const now = new Date("2026-01-02T03:04:05.678Z");

function denied({ connectionId, accountId }: TestConnection, requestId: string): LifecycleEvent {
  const fields = { request_id: requestId, connection_id: connectionId, org_id: accountId, agent_id: "a1" };
  return { type: "delegation.denied", connectionId, fields };
}

function created({ connectionId, accountId, platformId, secret }: TestConnection): LifecycleEvent {
  return {
    type: "connection.created",
    connectionId,
    fields: {
      connection_id: connectionId,
      platform_id: platformId,
      org_id: accountId,
      org_name: "Ada Byron",
      allowed_scopes: ["data:read"],
      callback_url: null,
    },
    secrets: { api_key: "dpz_very_secret", webhook_signing_secret: secret },
  };
}

const append = (event: LifecycleEvent) =>
  database.transaction((tx) => appendEvent(tx, secretBox, event, now));
const rowsOf = (connectionId: string) =>
  database("outbox").where({ aggregateid: connectionId }).orderBy("id");

test("appendEvent stores the event's kind first in the payload, and then its fields", async () => {
  const connection = await makeConnection(database, null);
  await append(denied(connection, "req-1"));
  const [row] = await rowsOf(connection.connectionId);
  expect(JSON.parse(row!.payload)).toEqual({
    event: "delegation.denied",
    request_id: "req-1",
    connection_id: connection.connectionId,
    org_id: connection.accountId,
    agent_id: "a1",
  });
  expect(row).toMatchObject({ type: "delegation.denied", aggregate_seq: 1, created_at: now });
});

test("appendEvent stores nothing if the change is rolled back", async () => {
  const connection = await makeConnection(database, null);
  const change = database.transaction(async (tx) => {
    await appendEvent(tx, secretBox, created(connection), now);
    throw new Error("the change failed");
  });
  await expect(change).rejects.toThrow("the change failed");
  expect(await rowsOf(connection.connectionId)).toEqual([]);
  await append(denied(connection, "req-1"));
  expect((await rowsOf(connection.connectionId)).map((row) => row.aggregate_seq)).toEqual([1]);
});

test("concurrent events of one connection have consecutive numbers in the order of their rows, and share a shard", async () => {
  const connection = await makeConnection(database, null);
  await Promise.all(Array.from({ length: 20 }, (_, n) => append(denied(connection, `req-${n}`))));
  const rows = await rowsOf(connection.connectionId);
  expect(rows.map((row) => row.aggregate_seq)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
  expect(new Set(rows.map((row) => row.shard)).size).toBe(1);
});

test("appendEvents stores many events in order with a constant number of statements", async () => {
  const connection = await makeConnection(database, null);
  await append(denied(connection, "first"));
  const events = Array.from({ length: 3_000 }, (_, n) => denied(connection, `req-${n}`));
  const statements: string[] = [];
  await database.transaction(async (tx) => {
    tx.on("query", ({ sql }: { sql: string }) => statements.push(sql));
    await appendEvents(tx, secretBox, events, now);
  });
  await append(denied(connection, "last"));
  const rows = await rowsOf(connection.connectionId);
  expect(rows.map((row) => row.aggregate_seq)).toEqual(Array.from({ length: 3_002 }, (_, n) => n + 1));
  expect(rows.map((row) => JSON.parse(row.payload).request_id)).toEqual([
    "first",
    ...events.map(({ fields }) => "request_id" in fields && fields.request_id),
    "last",
  ]);
  expect(statements.filter((sql) => /outbox|connections/.test(sql))).toHaveLength(2);
});

test("appendEvents stores nothing if one event is invalid or belongs to a different connection", async () => {
  const [connection, other] = [await makeConnection(database, null), await makeConnection(database, null)];
  const wrong = { ...denied(connection, "req-2"), fields: {} } as unknown as LifecycleEvent;
  for (const second of [wrong, denied(other, "req-2")]) {
    const appending = database.transaction((tx) =>
      appendEvents(tx, secretBox, [denied(connection, "req-1"), second], now),
    );
    await expect(appending).rejects.toThrow();
  }
  expect([...(await rowsOf(connection.connectionId)), ...(await rowsOf(other.connectionId))]).toEqual([]);
});

test("appendEvents accepts an empty list, and stores nothing", async () => {
  const before = await database("outbox");
  await database.transaction((tx) => appendEvents(tx, secretBox, [], now));
  expect(await database("outbox")).toEqual(before);
});

test("appendEvent encrypts secrets for the event's id and keeps them out of the payload", async () => {
  const connection = await makeConnection(database, null);
  await append(created(connection));
  const [row] = await rowsOf(connection.connectionId);
  expect(row!.payload).not.toContain("secret");
  const kept = await database("event_secrets").where({ event_id: row!.event_id }).first();
  expect(kept!.sealed.includes("dpz_very_secret")).toBe(false);
  expect(JSON.parse(secretBox.unbox(kept!.sealed, eventSecretsContext(row!.event_id)))).toEqual({
    api_key: "dpz_very_secret",
    webhook_signing_secret: connection.secret,
  });
});

test.each([
  ["an unknown field", { api_key: "dpz_leak" }],
  ["a mistyped field", { agent_id: 7 }],
  ["another connection", { connection_id: "11111111-1111-4111-8111-111111111111" }],
])("appendEvent rejects an event with %s and stores nothing", async (_, change) => {
  const connection = await makeConnection(database, null);
  const event = denied(connection, "req-1");
  const wrong = { ...event, fields: { ...event.fields, ...change } } as LifecycleEvent;
  await expect(append(wrong)).rejects.toThrow();
  expect(await rowsOf(connection.connectionId)).toEqual([]);
});

test("appendEvent rejects an event of a connection that does not exist", async () => {
  const connectionId = "11111111-1111-4111-8111-111111111111";
  await expect(
    append(denied({ connectionId, accountId: "o", platformId: "p", secret: "" }, "r")),
  ).rejects.toThrow("no connection");
});
