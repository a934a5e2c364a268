import { describe, expect, test } from "vitest";
import { append, createdEvent } from "../events/support/events.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, states } = world;
const textOfDatabase = async () => {
  const tables = ["outbox", "event_secrets", "inbox", "dead_letters", "connections"];
  tables.push("webhook_endpoints", "webhook_deliveries", "webhook_attempts");
  const rows = await Promise.all(
    tables.map((table) => world.home.database.raw(`select t::text from ${table} t`)),
  );
  return JSON.stringify(rows.map((result) => result.rows));
};

describe("the secrets of connection.created", () => {
  const apiKey = "dpz_a1b2c3d4_topsecret";

  test("appear in the sent body, but never as plain text in the database", async () => {
    const connection = await connect();
    const texts: string[] = [];
    world.receiver.reply = async (_request, response, nth) => {
      texts.push(await textOfDatabase());
      response.writeHead(nth === 1 ? 500 : 200).end(`echo ${apiKey} ${connection.secret}`);
      return undefined;
    };
    await append(world.home.database, createdEvent(connection, apiKey));
    texts.push(await textOfDatabase());
    await world.harness.relay();
    texts.push(await textOfDatabase());
    await world.harness.deliver();
    world.harness.clock.set((await world.harness.nextAttempt())!);
    await world.harness.deliver();
    texts.push(await textOfDatabase());
    expect(
      world.receiver.requests.map(({ event, faults }) => [
        event.api_key,
        event.webhook_signing_secret,
        faults,
      ]),
    ).toEqual(Array(2).fill([apiKey, connection.secret, []]));
    expect(world.receiver.requests[0]!.event).toMatchObject({
      event: "connection.created",
      org_name: "Ada Byron",
    });
    const asHex = (text: string) => Buffer.from(text).toString("hex");
    expect(texts.length).toBe(5);
    for (const text of texts) {
      for (const secret of [apiKey, connection.secret]) {
        expect(text.includes(secret)).toBe(false);
        expect(text.includes(asHex(secret))).toBe(false);
      }
    }
  });

  test("leave room for the delivery's id, which the signed body contains at every attempt", async () => {
    const connection = await connect();
    world.receiver.reply = (_request, response, nth) => {
      response.writeHead(nth === 1 ? 500 : 200).end();
      return undefined;
    };
    await append(world.home.database, createdEvent(connection, apiKey));
    await world.deny(connection);
    await world.harness.relay();
    await world.harness.deliver();
    world.harness.clock.set((await world.harness.nextAttempt())!);
    await world.harness.deliver();
    const ids = world.receiver.requests.map(({ event, headers }) => [
      event.delivery_id,
      headers["x-service-delivery-id"],
    ]);
    expect(ids).toHaveLength(3);
    for (const [signed, sent] of ids) expect(signed).toBe(sent);
    expect(new Set(ids.map(([signed]) => signed)).size).toBe(2);
  });

  test("disappear from the database after delivery, even in encrypted form", async () => {
    const connection = await connect();
    await append(world.home.database, createdEvent(connection, apiKey));
    await world.harness.relay();
    expect(await world.home.database("event_secrets")).toEqual([]);
    expect(await world.home.database("webhook_deliveries").whereNotNull("body_sealed")).toHaveLength(1);
    await world.harness.deliver();
    expect(await world.home.database("webhook_deliveries").whereNotNull("body_sealed")).toHaveLength(0);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("cause a failed attempt and a retry if they cannot be decrypted", async () => {
    const connection = await connect();
    await append(world.home.database, createdEvent(connection, apiKey));
    await world.harness.relay();
    const sealed = (await world.home.database("webhook_deliveries").first())!.body_sealed;
    await world.home.database("webhook_deliveries").update({ body_sealed: Buffer.alloc(40, 1) });
    await world.harness.deliver();
    expect((await world.harness.deliveries(connection.connectionId))[0]).toMatchObject({
      state: "pending",
      attempts: [{ outcome: "failed", status: null, detail: "internal" }],
    });
    await world.home.database("webhook_deliveries").update({ body_sealed: sealed });
    world.harness.clock.set((await world.harness.nextAttempt())!);
    await world.harness.deliver();
    expect(world.receiver.requests.map(({ event }) => event.api_key)).toEqual([apiKey]);
  });
});
