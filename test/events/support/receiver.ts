import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

/** A received request. `faults` names the rules of the specification that it violates. */
export type Received = {
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
  event: Record<string, unknown>;
  deliveryId: string;
  faults: string[];
};

/** Returns a status for the response, or sends the response itself. */
export type Reply = (
  request: Received,
  response: ServerResponse,
  nth: number,
) => number | undefined | Promise<number | undefined>;

/** A real HTTP receiver. It records every request, and checks both signatures without the service's code. */
export type Receiver = {
  url: string;
  requests: Received[];
  /** The secret for checking signatures, unless `secrets` contains one for the connection. */
  secret: string;
  secrets: Map<string, string>;
  reply: Reply;
  /** The number of requests without a response, and its maximum so far. */
  open: number;
  mostOpen: number;
  close(): Promise<void>;
};

/** Starts a receiver. It answers 204 by default. `now` is the sender's clock, in milliseconds. */
export async function startReceiver(
  now: () => number = Date.now,
  secret = "",
  host = "127.0.0.1",
): Promise<Receiver> {
  const server = createServer((request, response) => void answer(request, response));
  const receiver: Receiver = {
    url: "",
    requests: [],
    secret,
    secrets: new Map(),
    reply: () => 204,
    open: 0,
    mostOpen: 0,
    close: () => closeServer(server),
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    receiver.open += 1;
    receiver.mostOpen = Math.max(receiver.mostOpen, receiver.open);
    response.once("close", () => {
      receiver.open -= 1;
    });
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const event = JSON.parse(body);
    const key = receiver.secrets.get(event.connection_id) ?? receiver.secret;
    const received: Received = {
      path: request.url ?? "",
      headers: request.headers,
      body,
      event,
      deliveryId: String(request.headers["x-service-delivery-id"]),
      faults: faultsOf(request, body, key, now()),
    };
    receiver.requests.push(received);
    const status = await receiver.reply(received, response, receiver.requests.length);
    if (status !== undefined) response.writeHead(status).end();
  }

  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  receiver.url = `http://${host}:${(server.address() as AddressInfo).port}/hook`;
  return receiver;
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

function faultsOf({ method, headers }: IncomingMessage, body: string, secret: string, now: number): string[] {
  const faults: string[] = [];
  const timestamp = String(headers["x-service-timestamp"]);
  if (method !== "POST") faults.push("method");
  if (headers["content-type"] !== "application/json") faults.push("content type");
  if (!/^[0-9a-f-]{36}$/.test(String(headers["x-service-delivery-id"]))) faults.push("delivery id");
  if (!/^\d+$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) >= 300) faults.push("timestamp");
  const expected = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  if (headers["x-service-signature"] !== expected) faults.push("signature");
  if (!isStandard(headers, body, secret)) faults.push("standard signature");
  return faults;
}

/** The library reads the machine's clock, so this signs the same content again with the current time. */
function isStandard(headers: IncomingMessage["headers"], body: string, secret: string): boolean {
  const id = String(headers["webhook-id"]);
  const at = new Date(Number(headers["webhook-timestamp"]) * 1000);
  return (
    id === headers["x-service-delivery-id"] &&
    headers["webhook-timestamp"] === headers["x-service-timestamp"] &&
    new Webhook(secret).sign(id, at, body) === headers["webhook-signature"]
  );
}
