import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock, unixSeconds } from "../../../../src/clock.ts";
import { readReceiver } from "../../../../src/dev/tour/cluster/receiver_pod.ts";
import type { Receiver } from "../../../../src/dev/tour/receiver.ts";
import { type ReceiverProcess, startReceiverProcess } from "./receiver_process.ts";

const SECRET = "whsec_of_the_tests";
let pod: ReceiverProcess;
let receiver: Receiver;
let over: AbortController;

beforeEach(async () => {
  pod = await startReceiverProcess();
  over = new AbortController();
  receiver = readReceiver({ url: "http://in.the.cluster", deliveriesUrl: pod.deliveriesUrl }, over.signal);
});
afterEach(async () => {
  await receiver.close();
  await pod.stop();
});

async function deliver(event: string, id: string, secret = SECRET): Promise<number> {
  const body = JSON.stringify({ event, about: id });
  const timestamp = String(unixSeconds(systemClock.now()));
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  const headers = {
    "X-Service-Signature": signature,
    "X-Service-Timestamp": timestamp,
    "X-Service-Delivery-Id": id,
  };
  const { status } = await fetch(pod.webhooksUrl, { method: "POST", body, headers });
  return status;
}
const named = (wanted: string, ms = 10_000) => receiver.waitFor(({ event }) => event === wanted, ms);

test("what the pod has kept is found once its secret is known, earlier deliveries too", async () => {
  expect(await deliver("delegation.approved", "d1")).toBe(204);
  // So that it has been read before.
  await sleep(1_000);
  receiver.useSecret(SECRET);
  expect(await named("delegation.approved")).toEqual({
    event: "delegation.approved",
    delivery_id: "d1",
    body: { event: "delegation.approved", about: "d1" },
  });
  await deliver("delegation.revoked", "d2");
  expect(await named("delegation.revoked")).toMatchObject({ delivery_id: "d2" });
});

test("a delivery with a wrong signature is none, and is said to have come", async () => {
  receiver.useSecret(SECRET);
  expect(await deliver("delegation.revoked", "d1", "another")).toBe(204);
  await deliver("delegation.approved", "d2");
  await named("delegation.approved");
  await expect(named("delegation.revoked", 1)).rejects.toThrow(
    "no such event was delivered within 0.001 s; 1 deliveries had a wrong signature",
  );
});

test("where webhooks arrive nothing can be read", async () => {
  expect((await fetch(new URL("/deliveries", pod.webhooksUrl))).status).toBe(404);
});

test("it ends with SIGTERM, as a pod does", async () => {
  expect(await pod.stop()).toBe(0);
});
