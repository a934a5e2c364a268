import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isDeepStrictEqual } from "node:util";
import { type ErrorCode, errorCodes } from "../../src/errors.ts";
import { type OperatorCall, operatorCalls } from "../../src/operator_calls.ts";
import {
  createFakeRegistry,
  type FakeDelegation,
  type FakeRegistry,
  Refusal,
} from "./fake_operator_registry.ts";

/** A failure of a call: an error code, a status with an unknown body, no response, or a broken connection. */
export type Failure =
  | ErrorCode
  | { status: number; body: string; headers?: Record<string, string> }
  | "hang"
  | "cut";

export type ReceivedCall = {
  method: string;
  path: string;
  body: unknown;
  traceparent: string | undefined;
};

/** A fake of the operator's API. It keeps state, and fails on request. */
export type FakeOperatorApi = Omit<FakeRegistry, "handlers"> & {
  url: string;
  calls: ReceivedCall[];
  /** Returns the calls with this method whose path contains `path`. */
  callsTo(method: string, path: string): ReceivedCall[];
  /**
   * Makes the next `times` calls fail whose method and path begin with `prefix`, such as `"PUT
   * /internal/v1/agents"`.
   */
  fail(prefix: string, failure: Failure, times?: number): void;
  heal(): void;
  /** Holds back calls whose method and path begin with `prefix`. The returned function lets them continue. */
  hold(prefix: string): () => void;
  /** Performs the next matching call but drops the response. */
  loseAnswer(prefix: string): void;
  /** Replaces the function that decides before each call to refuse the connection or to drop the response. */
  intercept(plan: (method: string, path: string) => "cut" | "lost" | undefined): void;
  /** Approves a delegation request, as a person does in the console. */
  approve(requestId: string, scopes: string[], expiresAt?: Date): void;
  decide(requestId: string, status: "denied" | "expired" | "withdrawn" | "revoked", reason?: string): void;
  rotateKey(externalId: string): void;
  /** Stops listening. Keeps state and address. */
  goAway(): Promise<void>;
  comeBack(): Promise<void>;
  /** Stops permanently. Rejects if a response of the fake violated the contract. */
  stop(): Promise<void>;
};

/** `token` is the token that the operator must send. */
export async function startFakeOperatorApi({ token }: { token: string }): Promise<FakeOperatorApi> {
  const { handlers, ...registry } = createFakeRegistry();
  const calls: ReceivedCall[] = [];
  let failures: { prefix: string; failure: Failure; times: number }[] = [];
  let lost: string[] = [];
  let held: { prefix: string; until: Promise<void> } | undefined;
  let intercepted: Parameters<FakeOperatorApi["intercept"]>[0] = () => undefined;
  const drifts: unknown[] = [];
  let server: Server | undefined;
  let port = 0;

  /** Checks the request body and the response against the contract. */
  function answerTo(method: string, path: string, body: unknown): unknown {
    for (const [name, call] of Object.entries<OperatorCall>(operatorCalls)) {
      const id = call.method === method ? idIn(path, call.path) : undefined;
      if (id === undefined) continue;
      const sent = call.body?.safeParse(body);
      if (sent?.success === false) throw new Refusal("invalid_request");
      const handler = handlers[name as keyof typeof handlers] as (id: string, body: unknown) => unknown;
      const answer = handler(id, sent?.data);
      if (!isDeepStrictEqual(call.answer.schema.parse(answer), answer)) {
        throw new Error(`the fake's answer to ${name} violates the contract`);
      }
      return answer;
    }
    throw new Refusal("not_found");
  }

  function checkCaller({ headers, url }: IncomingMessage): void {
    if (headers.authorization !== `Bearer ${token}`) throw new Refusal("operator_unauthorized");
    const cluster = String(headers["x-deputize-cluster"]);
    if (!/^[A-Za-z0-9-]{1,64}$/.test(cluster)) throw new Refusal("invalid_request");
    if (url === operatorCalls.claimLeadership.path) return;
    if (headers["x-deputize-epoch"] !== String(registry.leader.epoch)) throw new Refusal("stale_epoch");
  }

  function plannedFor(call: string): Failure | undefined {
    const planned = failures.find(({ prefix, times }) => times > 0 && call.startsWith(prefix));
    if (planned !== undefined) planned.times -= 1;
    return planned?.failure;
  }

  async function turnOf(call: string): Promise<void> {
    if (held !== undefined && call.startsWith(held.prefix)) await held.until;
  }

  function isLost(call: string): boolean {
    const before = lost.length;
    lost = lost.filter((prefix) => !call.startsWith(prefix));
    return lost.length < before;
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body: unknown = text === "" ? {} : JSON.parse(text);
    const { method = "", url: path = "" } = request;
    calls.push({ method, path, body, traceparent: request.headers.traceparent?.toString() });
    await turnOf(`${method} ${path}`);
    const interception = intercepted(method, path);
    const failure = interception === "cut" ? interception : plannedFor(`${method} ${path}`);
    if (failure !== undefined) {
      answerFailure(request, response, failure);
      return;
    }
    try {
      checkCaller(request);
      const answer = answerTo(method, path, body);
      if (isLost(`${method} ${path}`) || interception === "lost") {
        request.socket.destroy();
      } else {
        send(response, 200, answer);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) {
        drifts.push(error);
        throw error;
      }
      sendError(response, error.code, error.message);
    }
  }

  function answerFailure(request: IncomingMessage, response: ServerResponse, failure: Failure): void {
    if (failure === "hang") return;
    if (failure === "cut") {
      request.socket.destroy();
    } else if (typeof failure === "string") {
      sendError(response, failure, `fake: ${errorCodes[failure][1]}`);
    } else {
      response.writeHead(failure.status, failure.headers).end(failure.body);
    }
  }

  function send(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  function sendError(response: ServerResponse, code: ErrorCode, message: string): void {
    const [status] = errorCodes[code];
    send(response, status, { error: { code, message, status } });
  }

  async function listen(): Promise<void> {
    server = createServer((request, response) => {
      handle(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address !== null && typeof address === "object") port = address.port;
  }

  async function close(): Promise<void> {
    const closing = server;
    server = undefined;
    if (closing === undefined) return;
    closing.close();
    closing.closeAllConnections();
    await once(closing, "close");
  }

  function byRequest(requestId: string): FakeDelegation {
    const found = [...registry.delegations.values()].find(({ request_id }) => request_id === requestId);
    if (found === undefined) throw new Error(`no request ${requestId}`);
    return found;
  }

  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    ...registry,
    calls,
    callsTo: (method, path) => calls.filter((call) => call.method === method && call.path.includes(path)),
    fail: (prefix, failure, times = Number.POSITIVE_INFINITY) =>
      void failures.push({ prefix, failure, times }),
    heal: () => {
      failures = [];
    },
    hold(prefix) {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = { prefix, until: promise };
      return resolve;
    },
    loseAnswer: (prefix) => void lost.push(prefix),
    intercept: (plan) => {
      intercepted = plan;
    },
    approve(requestId, scopes, expiresAt) {
      const delegation = byRequest(requestId);
      const now = new Date();
      const seconds = delegation.desired.expires_in ?? undefined;
      const end = expiresAt ?? (seconds === undefined ? undefined : new Date(now.getTime() + seconds * 1000));
      Object.assign(delegation, {
        status: "approved",
        approved_scope: scopes,
        cert_id: `cert-${randomUUID()}`,
        issued_at: now.toISOString(),
        expires_at: end?.toISOString() ?? null,
        decided_by: "owner@example.test",
      });
    },
    decide: (requestId, status, reason) =>
      void Object.assign(byRequest(requestId), {
        status,
        reason: reason ?? null,
        decided_by: "owner@example.test",
      }),
    rotateKey: (externalId) => void handlers.rotateCredentials(externalId, undefined),
    goAway: close,
    comeBack: listen,
    async stop() {
      await close();
      if (drifts.length > 0) throw new AggregateError(drifts, `the fake of the API failed: ${drifts[0]}`);
    },
  };
}

/**
 * Returns the external ID in a path, "" if the template has none, or undefined if the path does not match.
 */
function idIn(path: string, described: string): string | undefined {
  const [before = "", after] = described.split("{external_id}");
  if (after === undefined) return path === described ? "" : undefined;
  const id = path.slice(before.length, path.length - after.length);
  const isSuch = path.startsWith(before) && path.endsWith(after) && id !== "" && !id.includes("/");
  return isSuch ? decodeURIComponent(id) : undefined;
}
