import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock, unixSeconds } from "../../../../src/clock.ts";
import { RECEIVER, readReceiver, receiverManifests } from "../../../../src/dev/tour/cluster/receiver_pod.ts";
import type { Release } from "../../../../src/dev/tour/cluster/release.ts";
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

test("the receiver finds deliveries that arrived before the secret was known", async () => {
  expect(await deliver("delegation.approved", "d1")).toBe(204);
  // The receiver must have read the delivery before it knows the secret.
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

test("the receiver ignores a delivery with a wrong signature, and counts it in the error message", async () => {
  receiver.useSecret(SECRET);
  expect(await deliver("delegation.revoked", "d1", "another")).toBe(204);
  await deliver("delegation.approved", "d2");
  await named("delegation.approved");
  await expect(named("delegation.revoked", 1)).rejects.toThrow(
    "no such event was delivered within 0.001 s; 1 deliveries had a wrong signature",
  );
});

test("the port for webhooks returns no stored deliveries", async () => {
  expect((await fetch(new URL("/deliveries", pod.webhooksUrl))).status).toBe(404);
});

test("the receiver program exits on SIGTERM", async () => {
  expect(await pod.stop()).toBe(0);
});

test("the pod runs the program in its ConfigMap, and the program imports only Node's modules", async () => {
  const release = {
    name: "deputize",
    namespace: "deputize-system",
    image: { name: "deputize:1" },
  } as Release;
  const manifests = await receiverManifests(release, "lab");
  const { data } = manifests.find(({ kind }) => kind === "ConfigMap") as unknown as {
    data: Record<string, string>;
  };
  const [[file, program] = ["", ""]] = Object.entries(data);
  expect([...program.matchAll(/from "(.*)"/g)].map(([, from]) => from)).toEqual([
    "node:events",
    "node:http",
    "node:net",
  ]);
  expect(manifests.find(({ kind }) => kind === "Pod")?.spec).toMatchObject({
    volumes: [{ name: "program", configMap: { name: RECEIVER } }],
    containers: [
      {
        image: "deputize:1",
        command: ["node", `/receiver/${file}`, "8080", "8081"],
        volumeMounts: [{ name: "program", mountPath: "/receiver", readOnly: true }],
      },
    ],
  });
});
