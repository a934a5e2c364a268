import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { actor, must } from "./story.ts";

type Delivery = { headers: IncomingHttpHeaders; raw: string; event: Record<string, unknown> };

const ada = actor("ada");
const { word } = inject("settings");
const deliveries: Delivery[] = [];
/** HTTP statuses for the next deliveries. When the list is empty, the receiver returns 204. */
const answers: number[] = [];
let receiver: Server;
let reachable = false;

beforeAll(async () => {
  receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const raw = Buffer.concat(chunks).toString();
      deliveries.push({ headers: request.headers, raw, event: JSON.parse(raw) });
      response.writeHead(answers.shift() ?? 204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const callback_url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const path = `/v1/service/connections/${ada.connectionId}/callback`;
  reachable = (await ada.person.call("PUT", path, { callback_url })).status === 200;
  if (!reachable) console.warn("The service does not deliver to this machine: section 6 is not tried");
});

afterAll(async () => {
  await ada.person.call("PUT", `/v1/service/connections/${ada.connectionId}/callback`, {
    callback_url: null,
  });
  receiver.close();
});

async function delivered(match: Record<string, unknown>, count = 1): Promise<Delivery> {
  const found = () =>
    deliveries.filter(({ event }) => Object.entries(match).every(([name, value]) => event[name] === value));
  for (const end = performance.now() + 45_000; found().length < count; await sleep(50)) {
    if (performance.now() > end) throw new Error(`not delivered: ${JSON.stringify(match)}`);
  }
  return found()[count - 1] as Delivery;
}

function isSigned({ headers, raw }: Delivery): boolean {
  const timestamp = String(headers[`x-${word}-timestamp`]);
  const expected = createHmac("sha256", String(ada.platform.webhook_signing_secret))
    .update(`${timestamp}.${raw}`)
    .digest("hex");
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  return headers[`x-${word}-signature`] === expected && age < 300;
}

describe("6. Events", () => {
  test("delegation.approved has every field, the headers and a valid signature", async (context) => {
    if (!reachable) context.skip();
    const agentId = await ada.createAgent();
    const { approved_scope } = await ada.delegate(agentId, ["data:read"]);
    const delivery = await delivered({ event: "delegation.approved", agent_id: agentId });
    expect(delivery.event).toMatchObject({
      request_id: expect.any(String),
      connection_id: ada.connectionId,
      org_id: expect.any(String),
      approved_scope,
      cert_json: expect.anything(),
      delegation_key_statement: expect.anything(),
    });
    expect(delivery.headers["content-type"]).toBe("application/json");
    expect(delivery.headers[`x-${word}-delivery-id`]).toMatch(/^[0-9a-f-]{36}$/);
    expect(delivery.headers[`x-${word}-signature`]).toMatch(/^[0-9a-f]{64}$/);
    expect(delivery.headers[`x-${word}-timestamp`]).toMatch(/^\d+$/);
    expect(isSigned(delivery)).toBe(true);
  });

  test("delegation.denied and delegation.revoked also have every field of their types", async (context) => {
    if (!reachable) context.skip();
    const agent_id = await ada.createAgent();
    const asked = { connection_id: ada.connectionId, agent_id };
    const { request_id } = must(await ada.person.call("POST", "/v1/service/delegations/self-request", asked));
    must(await ada.person.call("POST", `/v1/service/delegations/requests/${String(request_id)}/deny`, {}));
    const denied = await delivered({ event: "delegation.denied", request_id });
    expect(denied.event).toMatchObject({ ...asked, org_id: expect.any(String) });
    const { cert_id } = await ada.delegate(agent_id, ["data:read"]);
    const reason = `over ${randomUUID()}`;
    must(await ada.person.call("POST", `/v1/service/delegations/${String(cert_id)}/revoke`, { reason }));
    const revoked = await delivered({ event: "delegation.revoked", cert_id });
    expect(revoked.event).toMatchObject({ ...asked, org_id: expect.any(String), reason });
    expect([denied, revoked].every(isSigned)).toBe(true);
  });

  test("a delivery that got a 503 response is sent again with the same delivery id and body", async (context) => {
    if (!reachable) context.skip();
    const agentId = await ada.createAgent();
    answers.push(500);
    await ada.delegate(agentId, ["data:read"]);
    const match = { event: "delegation.approved", agent_id: agentId };
    const [first, second] = [await delivered(match), await delivered(match, 2)];
    const id = `x-${word}-delivery-id`;
    expect([second.headers[id], second.raw]).toEqual([first.headers[id], first.raw]);
    expect(isSigned(second)).toBe(true);
  });
});
