import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import {
  promoteWebhookSecret,
  rotateWebhookSecret,
  SECRET_GRACE_SECONDS,
} from "../../src/deliveries/webhook_secret_rotation.ts";
import { removeOld } from "../../src/events/retention.ts";
import { makeConnection, secretBox, type TestConnection } from "../events/support/connection.ts";
import { useDatabase } from "../events/support/database.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { type Harness, startHarness } from "../events/support/harness.ts";
import { type Received, type Receiver, startReceiver } from "../events/support/receiver.ts";
import { eventually } from "../events/support/time.ts";
import { startTestWorker } from "../events/support/worker.ts";

const home = useDatabase();
let harness: Harness;
let receiver: Receiver;
let connection: TestConnection;
let sent = 0;

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
  harness = await startHarness(home);
  receiver = await startReceiver(() => harness.clock.now().getTime());
  connection = await makeConnection(home.database, receiver.url);
  receiver.secret = connection.secret;
});
afterEach(() => receiver.close());

const deps = () => ({ db: home.database, secretBox, clock: harness.clock, apiKeys: { forget() {} } });
const rotate = () => rotateWebhookSecret(deps(), connection);
const promote = (graceSeconds = SECRET_GRACE_SECONDS) =>
  promoteWebhookSecret(deps(), connection, graceSeconds);

/** Returns which of the secrets signed each header. A Standard Webhooks library verifies `standard`. */
function signedBy({ headers, body }: Received, secrets: Record<string, string>) {
  const timestamp = String(headers["x-service-timestamp"]);
  const names = Object.keys(secrets);
  const specified = names.filter(
    (name) =>
      createHmac("sha256", secrets[name] ?? "")
        .update(`${timestamp}.${body}`)
        .digest("hex") === headers["x-service-signature"],
  );
  const at = new Date(Number(headers["webhook-timestamp"]) * 1000);
  const listed = String(headers["webhook-signature"]).split(" ");
  const standard = names.filter((name) =>
    listed.includes(new Webhook(secrets[name] ?? "").sign(String(headers["webhook-id"]), at, body)),
  );
  return { specified: specified.join(), standard, signatures: listed.length };
}

async function deliver(): Promise<Received[]> {
  const before = receiver.requests.length;
  await append(home.database, deniedEvent(connection, `req-${sent++}`), harness.clock.now());
  await harness.run();
  return receiver.requests.slice(before);
}

describe("a webhook secret that is being replaced", () => {
  test("signs alone before the rotation, then with the next secret, and after the promotion until the grace period ends", async () => {
    const old = connection.secret;
    const signatures = async (secrets: Record<string, string>) =>
      (await deliver()).map((request) => signedBy(request, secrets));
    expect(await signatures({ old })).toEqual([{ specified: "old", standard: ["old"], signatures: 1 }]);
    const next = await rotate();
    expect(next).not.toBe(old);
    expect(await signatures({ old, next })).toEqual([
      { specified: "old", standard: ["old", "next"], signatures: 2 },
    ]);
    const { formerUntil } = await promote(60);
    const both = [{ specified: "next", standard: ["old", "next"], signatures: 2 }];
    expect(await signatures({ old, next })).toEqual(both);
    harness.clock.set(new Date((formerUntil?.getTime() ?? 0) - 1));
    expect(await signatures({ old, next })).toEqual(both);
    harness.clock.advance(0.001);
    expect(await signatures({ old, next })).toEqual([
      { specified: "next", standard: ["next"], signatures: 1 },
    ]);
  });

  test("signs so that a Standard Webhooks library can verify with the current or the next secret", async () => {
    harness.clock.set(new Date());
    const [old, next] = [connection.secret, await rotate()];
    const [request] = await deliver();
    const headers = request?.headers as Record<string, string>;
    for (const secret of [old, next]) {
      expect(new Webhook(secret).verify(request?.body ?? "", headers)).toEqual(request?.event);
    }
  });

  test("stops signing immediately if the grace period is zero", async () => {
    const old = connection.secret;
    const next = await rotate();
    expect((await promote(0)).formerUntil).toBeNull();
    const [request] = await deliver();
    expect(signedBy(request as Received, { old, next })).toMatchObject({ standard: ["next"], signatures: 1 });
  });

  test("has the newer of two next secrets as its successor if both are created before the promotion", async () => {
    const [first, second] = [await rotate(), await rotate()];
    const [during] = await deliver();
    expect(signedBy(during as Received, { first, second })).toMatchObject({ standard: ["second"] });
    await promote();
    const [after] = await deliver();
    expect(signedBy(after as Received, { first, second })).toMatchObject({ specified: "second" });
  });

  test("signs together with the current and the next secret if a second rotation begins within its grace period", async () => {
    const one = connection.secret;
    const two = await rotate();
    await promote();
    const three = await rotate();
    const [request] = await deliver();
    expect(signedBy(request as Received, { one, two, three })).toEqual({
      specified: "two",
      standard: ["one", "two", "three"],
      signatures: 3,
    });
  });

  test("can be replaced only if a next secret exists, and only once", async () => {
    await expect(promote()).rejects.toMatchObject({ code: "no_secret_rotation" });
    await rotate();
    await promote();
    await expect(promote()).rejects.toMatchObject({ code: "no_secret_rotation" });
  });

  test("disappears from the database exactly when its grace period ends", async () => {
    await rotate();
    const { formerUntil } = await promote(60);
    const kept = async (now: Date) => {
      await removeOld(home.database, now);
      const row = await home
        .database("connections")
        .where({ connection_id: connection.connectionId })
        .first();
      return row?.webhook_former_secret_sealed !== null;
    };
    expect(await kept(new Date((formerUntil?.getTime() ?? 0) - 1))).toBe(true);
    expect(await kept(formerUntil ?? new Date(0))).toBe(false);
  });
});

describe("a receiver that answers 401", () => {
  /** Makes the receiver accept only signatures created with this secret. */
  function accepting(secret: () => string): void {
    receiver.reply = (request) => (signedBy(request, { it: secret() }).specified === "it" ? 204 : 401);
  }
  const stateOf = async () => (await harness.deliveries(connection.connectionId)).at(-1);

  test("receives one more request, signed with the next secret, if it already uses that secret", async () => {
    const next = await rotate();
    accepting(() => next);
    const requests = await deliver();
    expect(requests.map(({ deliveryId }) => deliveryId)).toEqual(
      Array(2).fill((await stateOf())?.deliveryId),
    );
    expect(await stateOf()).toMatchObject({
      state: "delivered",
      attempts: [{ outcome: "delivered", status: 204 }],
    });
  });

  test("receives one more request if it still uses the former secret and the grace period has not ended", async () => {
    const old = connection.secret;
    await rotate();
    await promote(60);
    accepting(() => old);
    expect(await deliver()).toHaveLength(2);
    expect(await stateOf()).toMatchObject({ state: "delivered" });
    harness.clock.advance(60);
    expect(await deliver()).toHaveLength(1);
    expect(await stateOf()).toMatchObject({ state: "rejected", attempts: [{ status: 401 }] });
  });

  test("receives no third request if it also answers 401 to the second request", async () => {
    await rotate();
    accepting(() => "whsec_bm9uZQ==");
    expect(await deliver()).toHaveLength(2);
    expect(await stateOf()).toMatchObject({ state: "rejected", attempts: [{ status: 401 }] });
  });

  test("receives no second request while there is only one secret", async () => {
    accepting(() => "whsec_bm9uZQ==");
    expect(await deliver()).toHaveLength(1);
    expect(await stateOf()).toMatchObject({ state: "rejected" });
  });

  test("receives the delivery again later if it answers 500 to the second request", async () => {
    await rotate();
    receiver.reply = (_request, _response, nth) => (nth === 1 ? 401 : 500);
    expect(await deliver()).toHaveLength(2);
    expect(await stateOf()).toMatchObject({ state: "pending", attempts: [{ status: 500 }] });
  });

  test("receives a second request with the current secret if the first was signed before the promotion", async () => {
    let promoted = "";
    receiver.reply = async (request) => {
      if (promoted === "") {
        promoted = await rotate();
        await promote(0);
      }
      return signedBy(request, { promoted }).specified === "promoted" ? 204 : 401;
    };
    expect(await deliver()).toHaveLength(2);
    expect(await stateOf()).toMatchObject({ state: "delivered" });
  });
});

test("replacing secrets under load loses no delivery and causes no rejection, whichever secret the receiver has", {
  timeout: 120_000,
}, async () => {
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  const worker = startTestWorker(home.urls);
  const live = { ...deps(), clock: systemClock };
  let known = connection.secret;
  let wanted = known;
  const stray: string[] = [];
  const seen = new Set<string>();
  receiver.reply = (request) => {
    // Switches only before a delivery's first try. A switch between the two tries could refuse both tries.
    if (!seen.has(request.deliveryId)) known = wanted;
    seen.add(request.deliveryId);
    if (signedBy(request, { known }).specified === "known") return 204;
    stray.push(request.deliveryId);
    return 401;
  };
  const ids = Array.from({ length: 160 }, (_, n) => `load-${n}`);
  const load = (async () => {
    for (const id of ids) await append(home.database, deniedEvent(connection, id));
  })();
  const delivered = () => new Set(receiver.requests.map(({ event }) => event.request_id)).size;
  try {
    for (let round = 1; round <= 4; round += 1) {
      const next = await rotateWebhookSecret(live, connection);
      await eventually(`${round * 30} deliveries`, () => delivered() >= round * 30, 60);
      if (round % 2 === 0) wanted = next;
      await promoteWebhookSecret(live, connection, 600);
      await eventually(`${round * 30 + 10} deliveries`, () => delivered() >= round * 30 + 10, 60);
      wanted = next;
    }
    await load;
    const states = () => harness.deliveries(connection.connectionId);
    await eventually(
      "all are settled",
      async () => {
        const all = await states();
        return all.length === ids.length && all.every(({ state }) => !["pending", "sending"].includes(state));
      },
      60,
    );
    expect(new Set((await states()).map(({ state }) => state))).toEqual(new Set(["delivered"]));
    expect(stray.length).toBeGreaterThan(0);
    expect(receiver.requests.length).toBe(ids.length + stray.length);
  } finally {
    await worker.stop();
  }
});
