import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { reported } from "../../src/events/kafka/lag.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { endpointIdOf, ensureEndpoints } from "../../src/webhooks/endpoint.ts";
import { makeConnection } from "../events/support/connection.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { type ServiceApi, startServiceApi } from "../support/service_world.ts";
import { lookAt } from "./look_at.ts";

const PATIENT = { timeout: 20_000 };
const EVENTS = "docs/events.md#alerts";

let api: ServiceApi;
beforeAll(async () => {
  api = await startServiceApi();
});
afterAll(() => api.stop());

const { figureOf, saidOf } = lookAt(() => api);
const ago = (seconds: number) => addSeconds(api.clock.now(), -seconds);

describe("workers", () => {
  test("who lives by its leases, and whose leases have run out", async () => {
    expect(await saidOf("workers", "workers")).toEqual([0, "act", "DeputizeWorkerAbsent"]);
    const { value: shards, state } = await figureOf("workers", "outbox_shards_free");
    expect([shards, state]).toEqual([8, "look"]);
    const leases = createShardLeases(api.db, randomUUID(), 60);
    await leases.renew();
    expect(await saidOf("workers", "workers")).toEqual([1, "well", null]);
    expect(await saidOf("workers", "outbox_shards_free")).toEqual([0, "well", null]);
    const gone = createShardLeases(api.db, randomUUID(), 1);
    await gone.renew();
    expect((await figureOf("workers", "workers")).value).toBe(2);
    await expect.poll(async () => (await figureOf("workers", "workers")).value, PATIENT).toBe(1);
    await leases.release();
    expect(await saidOf("workers", "workers")).toEqual([0, "act", "DeputizeWorkerAbsent"]);
  });

  test("the way of events; Kafka's readers as a worker read them last, and for how long that counts", async () => {
    expect(await saidOf("workers", "event_way")).toEqual(["embedded", "well", null]);
    const at = {
      deputize_kafka_consumer_lag: [3, 4].map((value, partition) => ({
        value,
        labels: { topic: "t", group: "webhooks", partition: String(partition) },
      })),
    };
    await api.db("event_way").update({ way: "kafka" });
    expect(await saidOf("workers", "event_way")).toEqual(["kafka", "well", null]);
    const up = "deputize_measurement_up kafka_lag";
    expect(await saidOf("workers", up)).toEqual([0, "act", "DeputizeKafkaAway"]);
    const lag = { name: "kafka_lag", gauges: {}, read: async () => at, close: async () => {} };
    await reported(lag, api.db).read(ago(59));
    expect(await saidOf("workers", up)).toEqual([1, "well", null]);
    expect(await figureOf("workers", "deputize_kafka_consumer_lag webhooks")).toMatchObject({
      value: 7,
      at: ago(59).toISOString(),
    });
    api.clock.advance(1);
    expect(await saidOf("workers", up)).toEqual([0, "act", "DeputizeKafkaAway"]);
    await reported(lag, api.db).read(ago(0));
    await reported(lag, api.db).read(ago(300));
    expect(await saidOf("workers", up)).toEqual([1, "well", null]);
    await api.db("event_way").update({ way: "embedded" });
  });

  test("what a worker cannot keep in the database is no fault of Kafka's", async () => {
    const lag = { name: "kafka_lag", gauges: {}, read: async () => ({}), close: async () => {} };
    const broken = { raw: async () => Promise.reject(new Error("away")) } as never;
    expect(await reported(lag, broken).read(ago(0))).toEqual({});
  });
});

describe("events", () => {
  test("how many wait, and how long the oldest has", async () => {
    expect(await saidOf("events", "deputize_outbox_events")).toEqual([0, "well", null]);
    const connection = await makeConnection(api.db, null);
    const told = async (seconds: number) => {
      await append(api.db, deniedEvent(connection, `${seconds}`), ago(seconds));
      return saidOf("events", "deputize_outbox_oldest_seconds");
    };
    expect(await told(60)).toEqual([60, "well", null]);
    expect(await told(61)).toEqual([61, "look", "DeputizeOutboxAges"]);
    expect(await saidOf("events", "deputize_consumer_oldest_seconds webhooks")).toEqual([61, "well", null]);
    expect(await told(301)).toEqual([301, "look", "DeputizeOutboxAges"]);
    expect(await saidOf("events", "deputize_consumer_oldest_seconds webhooks")).toEqual([
      301,
      "look",
      "DeputizeConsumerBehind",
    ]);
    expect(await saidOf("events", "deputize_consumer_oldest_seconds notices")).toEqual([0, "well", null]);
    expect(await told(901)).toEqual([901, "act", "DeputizeOutboxStuck"]);
    expect((await figureOf("events", "deputize_outbox_oldest_seconds")).runbook).toBe(EVENTS);
    expect(await saidOf("events", "deputize_outbox_events")).toEqual([4, "well", null]);
    expect((await api.look("events")).state).toBe("act");
    await api.db("outbox").delete();
    expect((await api.look("events")).state).toBe("well");
  });

  test("what a consumer could not handle, and the history that Kafka does not have", async () => {
    const letter = { event: {}, reason: "tried", created_at: ago(1) };
    await api.db("dead_letters").insert({ ...letter, consumer: "webhooks", event_id: randomUUID() });
    expect(await saidOf("events", "deputize_dead_letters webhooks")).toEqual([1, "well", null]);
    await api.db("event_way").update({ way: "kafka" });
    expect(await saidOf("events", "deputize_dead_letters_uncarried")).toEqual([
      1,
      "look",
      "DeputizeDeadLettersNotCarried",
    ]);
    await api.db("history_queue").insert({
      ...{ account_id: randomUUID(), event_id: randomUUID(), traceparent: null },
      occurred_at: ago(901),
    });
    expect(await saidOf("events", "deputize_history_queue_rows")).toEqual([1, "well", null]);
    expect(await saidOf("events", "deputize_history_queue_oldest_seconds")).toEqual([
      901,
      "look",
      "DeputizeHistoryAges",
    ]);
    await api.db("event_way").update({ way: "embedded" });
    for (const table of ["dead_letters", "history_queue"]) await api.db(table).delete();
  });
});

describe("webhooks", () => {
  test("deliveries that are not over, by their state, and those that were tried before", async () => {
    const { connectionId } = await makeConnection(api.db, "https://hooks.example.test/");
    const states = ["pending", "pending", "sending", "held", "failed", "delivered"] as const;
    for (const [place, state] of states.entries()) {
      await insertDelivery(api.db, connectionId, { at: ago(1), state, attempts: place === 0 ? 0 : 2 });
    }
    const { figures, state } = await api.look("webhooks");
    expect(state).toBe("well");
    const values = Object.fromEntries(Object.entries(figures).map(([name, { value }]) => [name, value]));
    expect(values).toMatchObject({
      "deputize_webhook_deliveries pending": 2,
      "deputize_webhook_deliveries sending": 1,
      "deputize_webhook_deliveries held": 1,
      webhook_deliveries_retried: 1,
    });
  });

  test("many that are held are to be looked at", async () => {
    const { connectionId } = await makeConnection(api.db, "https://hooks.example.test/");
    await insertDelivery(api.db, connectionId, { at: ago(1), state: "held" });
    await api.db.raw(
      `insert into webhook_deliveries
       select (jsonb_populate_record(d, jsonb_build_object('delivery_id', gen_random_uuid(), 'event_id', gen_random_uuid()))).*
       from webhook_deliveries d, generate_series(1, 999) where d.endpoint_id = ?`,
      [endpointIdOf(connectionId)],
    );
    expect(await saidOf("webhooks", "deputize_webhook_deliveries held")).toEqual([
      1001,
      "look",
      "DeputizeDeliveriesHeld",
    ]);
    await api.db("webhook_deliveries").delete();
  });

  test("callbacks that were suspended, and whether one was within the hour", async () => {
    const suspend = async (seconds: number) => {
      const { connectionId } = await makeConnection(api.db, "https://hooks.example.test/");
      await ensureEndpoints(api.db, [connectionId], ago(0));
      await api
        .db("webhook_endpoints")
        .where({ connection_id: connectionId })
        .update({
          ...{ state: "suspended", suspend_reason: "gone" },
          suspended_at: ago(seconds),
        });
    };
    await suspend(3_600);
    expect(await saidOf("webhooks", "deputize_webhook_endpoints suspended")).toEqual([1, "well", null]);
    expect(await saidOf("webhooks", "webhook_endpoints_suspended_lately")).toEqual([0, "well", null]);
    await suspend(3_599);
    expect(await saidOf("webhooks", "deputize_webhook_endpoints suspended")).toEqual([2, "well", null]);
    expect(await saidOf("webhooks", "webhook_endpoints_suspended_lately")).toEqual([
      1,
      "look",
      "DeputizeEndpointSuspended",
    ]);
  });
});

describe("mail", () => {
  test("notices that wait, and how long the oldest has", async () => {
    const { accountId } = await makeConnection(api.db, null);
    const wait = (seconds: number) =>
      api.db("notices").insert({
        ...{ event_id: randomUUID(), account_id: accountId, type: "credits.low", payload: "{}" },
        ...{ state: "waiting", next_attempt_at: ago(0), created_at: ago(seconds) },
      });
    await wait(3_600);
    expect(await saidOf("mail", "deputize_notices_oldest_seconds")).toEqual([3_600, "well", null]);
    await wait(3_601);
    expect(await saidOf("mail", "deputize_notices_waiting")).toEqual([2, "well", null]);
    expect(await saidOf("mail", "deputize_notices_oldest_seconds")).toEqual([
      3_601,
      "look",
      "DeputizeNoticesOld",
    ]);
    await api.db("notices").delete();
  });

  test("codes that no mail server took over, and when one last did", async () => {
    await api.db("sign_in_mails").delete();
    expect(await saidOf("mail", "sign_in_mails_last")).toEqual([null, "well", null]);
    await api.client().signIn("ada@example.test");
    expect((await figureOf("mail", "sign_in_mails_last")).value).toBe(api.clock.now().toISOString());
    expect(await saidOf("mail", "sign_in_mails_under_way")).toEqual([0, "well", null]);
    await api.db("sign_in_mails").update({ mailed_at: null, created_at: ago(60) });
    expect(await saidOf("mail", "sign_in_mails_under_way")).toEqual([1, "well", null]);
    await api.db("sign_in_mails").update({ created_at: ago(61) });
    expect(await saidOf("mail", "sign_in_mails_under_way")).toEqual([1, "look", null]);
    const mail = await api.db("sign_in_mails").first();
    await api.db("sign_in_mails").update({ kind: "notice" });
    expect(await saidOf("mail", "sign_in_mails_under_way")).toEqual([0, "well", null]);
    await api.db("sign_in_mails").update({ kind: mail?.kind ?? "digits", expires_at: ago(0) });
    expect(await saidOf("mail", "sign_in_mails_under_way")).toEqual([0, "well", null]);
  });
});
