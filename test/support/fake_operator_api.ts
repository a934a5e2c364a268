import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type ErrorCode, errorCodes } from "../../src/errors.ts";
import type { PlatformWish } from "../../src/operator_calls.ts";
import { coversScopes, invalidScopes } from "../../src/protocol/documents/scopes.ts";

type FakePlatform = {
  accountEmail: string;
  wish: PlatformWish;
  platform_id: string;
  connection_id: string;
  api_key: string;
  api_key_prefix: string;
  signing_secret: string;
  webhook_signing_secret: string;
  callback_url: string | null;
  undelivered: boolean;
  removed: boolean;
  retired: { prefix: string; graceSeconds: number }[];
};
type FakeAgent = { agent_id: string; name: string; agent_type: string; platform: string; disabled: boolean };
type FakeDelegation = {
  platform: string;
  agent: string;
  wish: Record<string, unknown>;
  request_id: string;
  status: "pending" | "approved" | "denied" | "expired" | "withdrawn" | "revoked";
  reason: string | null;
  requested_scope: string[];
  approved_scope: string[] | null;
  cert_id: string | null;
  issued_at: string | null;
  expires_at: string | null;
  decided_by: string | null;
};
type Account = { onboarded: boolean; platformLimit: number };

/**
 * How a call is made to fail: an error code, a status with a body of no known form, no answer, or a cut
 * connection.
 */
export type Failure =
  | ErrorCode
  | { status: number; body: string; headers?: Record<string, string> }
  | "hang"
  | "cut";

/** A call that was received. */
export type ReceivedCall = { method: string; path: string; body: unknown };

/** Behaves as the operator's API does, keeps state, and fails when told to. */
export type FakeInternalApi = {
  url: string;
  accounts: Map<string, Account>;
  platforms: Map<string, FakePlatform>;
  agents: Map<string, FakeAgent>;
  delegations: Map<string, FakeDelegation>;
  calls: ReceivedCall[];
  /** Calls of a method whose path contains a text. */
  callsTo(method: string, path: string): ReceivedCall[];
  /** Has the next `times` calls fail whose method and path (`"PUT /internal/v1/agents"`) begin so. */
  fail(prefix: string, failure: Failure, times?: number): void;
  /** Ends all planned failures. */
  heal(): void;
  /** Does a call's work but loses its answer, once. */
  loseAnswer(prefix: string): void;
  /** What people do in the console. The delegation is named by its request id. */
  approve(requestId: string, scopes: string[], expiresAt?: Date): void;
  decide(requestId: string, status: "denied" | "expired" | "withdrawn" | "revoked", reason?: string): void;
  rotateKey(externalId: string): void;
  /** Stops listening; state and address are kept. */
  goAway(): Promise<void>;
  comeBack(): Promise<void>;
  stop(): Promise<void>;
};

/** Starts the fake on a free loopback port. `token` is what the operator must present. */
export async function startFakeInternalApi({ token }: { token: string }): Promise<FakeInternalApi> {
  const accounts = new Map<string, Account>();
  const platforms = new Map<string, FakePlatform>();
  const agents = new Map<string, FakeAgent>();
  const delegations = new Map<string, FakeDelegation>();
  const epochs = new Map<string, number>();
  const calls: ReceivedCall[] = [];
  let failures: { prefix: string; failure: Failure; times: number }[] = [];
  let lost: string[] = [];
  let server: Server | undefined;
  let port = 0;

  class Refusal extends Error {
    readonly code: ErrorCode;
    constructor(code: ErrorCode) {
      super(`fake: ${errorCodes[code][1]}`);
      this.code = code;
    }
  }

  const platformAnswer = (platform: FakePlatform) => ({
    platform_id: platform.platform_id,
    connection_id: platform.connection_id,
    api_key_prefix: platform.api_key_prefix,
    default_allowed_scopes: platform.wish.default_allowed_scopes,
    callback_url: platform.callback_url,
    credentials: platform.undelivered
      ? {
          api_key: platform.api_key,
          signing_secret: platform.signing_secret,
          webhook_signing_secret: platform.webhook_signing_secret,
        }
      : null,
  });

  function newKey() {
    const prefix = `dpz_${randomBytes(4).toString("hex")}`;
    return {
      api_key: `${prefix}_${randomBytes(16).toString("hex")}`,
      api_key_prefix: prefix,
      undelivered: true,
    };
  }

  function livePlatform(id: string): FakePlatform {
    const platform = platforms.get(id);
    if (platform === undefined || platform.removed) throw new Refusal("not_found");
    return platform;
  }

  function findAccount(email: string): Account {
    const account = accounts.get(email);
    if (account === undefined) throw new Refusal("namespace_not_bound");
    if (!account.onboarded) throw new Refusal("onboarding_incomplete");
    return account;
  }

  function putPlatform(id: string, wish: PlatformWish) {
    const account = findAccount(wish.account_email);
    if (invalidScopes(wish.default_allowed_scopes).length > 0) throw new Refusal("invalid_scopes");
    if (wish.surface_type !== "agentic_api") throw new Refusal("surface_not_available");
    if (wish.callback_url?.startsWith("http://")) throw new Refusal("invalid_callback_url");
    const known = platforms.get(id);
    if (known === undefined) return platformAnswer(register(id, wish, account));
    if (known.removed || known.accountEmail !== wish.account_email) throw new Refusal("external_conflict");
    if (coversScopes(known.wish.default_allowed_scopes, wish.default_allowed_scopes).length > 0) {
      throw new Refusal("ceiling_widened");
    }
    known.wish = wish;
    if (wish.callback_url !== undefined) known.callback_url = wish.callback_url;
    return platformAnswer(known);
  }

  function register(id: string, wish: PlatformWish, account: Account): FakePlatform {
    const owned = [...platforms.values()].filter(
      (platform) => platform.accountEmail === wish.account_email && !platform.removed,
    );
    if (owned.length >= account.platformLimit) throw new Refusal("platform_limit");
    const platform: FakePlatform = {
      accountEmail: wish.account_email,
      wish,
      platform_id: randomUUID(),
      connection_id: randomUUID(),
      ...newKey(),
      signing_secret: randomBytes(16).toString("hex"),
      webhook_signing_secret: randomBytes(16).toString("hex"),
      callback_url: wish.callback_url ?? null,
      removed: false,
      retired: [],
    };
    platforms.set(id, platform);
    return platform;
  }

  function replaceKey(id: string, graceSeconds: number) {
    const platform = livePlatform(id);
    platform.retired.push({ prefix: platform.api_key_prefix, graceSeconds });
    Object.assign(platform, newKey());
    return platformAnswer(platform);
  }

  function acknowledge(id: string, prefix: string) {
    const platform = livePlatform(id);
    if (platform.api_key_prefix !== prefix) throw new Refusal("external_conflict");
    platform.undelivered = false;
    return { acknowledged: true };
  }

  function removePlatform(id: string) {
    const platform = platforms.get(id);
    if (platform !== undefined) platform.removed = true;
    for (const delegation of delegations.values()) {
      if (delegation.platform === id && delegation.status === "approved") delegation.status = "revoked";
    }
    return { removed: true };
  }

  function putAgent(id: string, wish: { platform_external_id: string; name: string; agent_type: string }) {
    livePlatform(wish.platform_external_id);
    const known = agents.get(id);
    if (known !== undefined && known.agent_type !== wish.agent_type) throw new Refusal("external_conflict");
    if (known !== undefined) known.name = wish.name;
    const agent = known ?? {
      agent_id: randomBytes(16).toString("hex"),
      name: wish.name,
      agent_type: wish.agent_type,
      platform: wish.platform_external_id,
      disabled: false,
    };
    agents.set(id, agent);
    const { platform: _, ...answer } = agent;
    const public_key_json = { ed25519: `key of ${agent.agent_id}`, ml_dsa_65: "…" };
    return { ...answer, custody_mode: "custodial", public_key_json };
  }

  function putDelegation(id: string, wish: Record<string, unknown>) {
    const { platform_external_id, agent_external_id, requested_scope } = wish as {
      platform_external_id: string;
      agent_external_id: string;
      requested_scope: string[];
    };
    const known = delegations.get(id);
    if (known !== undefined) return delegationState(known);
    const platform = livePlatform(platform_external_id);
    const agent = agents.get(agent_external_id);
    if (agent === undefined) throw new Refusal("not_found");
    if (agent.disabled) throw new Refusal("agent_disabled");
    if (invalidScopes(requested_scope).length > 0) throw new Refusal("invalid_scopes");
    if (coversScopes(platform.wish.default_allowed_scopes, requested_scope).length > 0) {
      throw new Refusal("ceiling_exceeded");
    }
    const delegation: FakeDelegation = {
      platform: platform_external_id,
      agent: agent_external_id,
      wish,
      request_id: `req-${randomUUID()}`,
      status: "pending",
      reason: null,
      requested_scope,
      approved_scope: null,
      cert_id: null,
      issued_at: null,
      expires_at: null,
      decided_by: null,
    };
    delegations.set(id, delegation);
    return delegationState(delegation);
  }

  function revoke(id: string, reason: string | undefined) {
    const delegation = delegations.get(id);
    if (delegation === undefined) throw new Refusal("not_found");
    if (delegation.status === "pending") {
      Object.assign(delegation, { status: "withdrawn", reason: reason ?? null });
    }
    if (delegation.status === "approved") {
      Object.assign(delegation, { status: "revoked", reason: reason ?? null });
    }
    return delegationState(delegation);
  }

  function delegationState({ platform: _, agent: __, wish: ___, ...state }: FakeDelegation) {
    return state;
  }

  function state(ids: string[]) {
    if (ids.length > 500) throw new Refusal("invalid_request");
    const pick = <V, R>(from: Map<string, V>, form: (value: V) => R) =>
      Object.fromEntries(
        ids.flatMap((id) => {
          const value = from.get(id);
          return value === undefined ? [] : [[id, form(value)]];
        }),
      );
    return {
      platforms: pick(platforms, ({ platform_id, connection_id, api_key_prefix, removed }) => ({
        platform_id,
        connection_id,
        api_key_prefix: removed ? null : api_key_prefix,
        removed,
      })),
      agents: pick(agents, ({ agent_id, disabled }) => ({ agent_id, disabled })),
      delegations: pick(delegations, delegationState),
    };
  }

  function route(method: string, path: string, body: Record<string, unknown>): unknown {
    const [, kind, rawId = "", action] = /^\/internal\/v1\/(\w+)(?:\/([^/]+))?(?:\/(.+))?$/.exec(path) ?? [];
    const id = decodeURIComponent(rawId);
    switch (`${method} ${kind} ${action ?? ""}`.trim()) {
      case "PUT platforms":
        return putPlatform(id, body as PlatformWish);
      case "POST platforms credentials/acknowledge":
        return acknowledge(id, String(body.api_key_prefix));
      case "POST platforms credentials/rotate":
        return replaceKey(id, Number(body.grace_seconds ?? 0));
      case "DELETE platforms":
        return removePlatform(id);
      case "PUT agents":
        return putAgent(id, body as Parameters<typeof putAgent>[1]);
      case "DELETE agents": {
        const agent = agents.get(id);
        if (agent !== undefined) agent.disabled = true;
        return { removed: true };
      }
      case "PUT delegations":
        return putDelegation(id, body);
      case "POST delegations revoke":
        return revoke(id, body.reason as string | undefined);
      case "POST state":
        return state(body.external_ids as string[]);
      default:
        throw new Refusal("not_found");
    }
  }

  function checkCaller({ headers }: IncomingMessage): void {
    if (headers.authorization !== `Bearer ${token}`) throw new Refusal("operator_unauthorized");
    const cluster = String(headers["x-deputize-cluster"]);
    const epoch = Number(headers["x-deputize-epoch"]);
    if (!/^[A-Za-z0-9-]{1,64}$/.test(cluster) || !Number.isInteger(epoch)) {
      throw new Refusal("invalid_request");
    }
    if (epoch < (epochs.get(cluster) ?? 0)) throw new Refusal("stale_epoch");
    epochs.set(cluster, epoch);
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>;
    const { method = "", url: path = "" } = request;
    calls.push({ method, path, body });
    const planned = failures.find(({ prefix, times }) => times > 0 && `${method} ${path}`.startsWith(prefix));
    if (planned !== undefined) {
      planned.times -= 1;
      answerFailure(request, response, planned.failure);
      return;
    }
    try {
      checkCaller(request);
      const answer = route(method, path, body);
      const isLost = lost.some((prefix) => `${method} ${path}`.startsWith(prefix));
      if (isLost) {
        lost = lost.filter((prefix) => !`${method} ${path}`.startsWith(prefix));
        request.socket.destroy();
        return;
      }
      send(response, 200, answer);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
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
    const found = [...delegations.values()].find(({ request_id }) => request_id === requestId);
    if (found === undefined) throw new Error(`no request ${requestId}`);
    return found;
  }

  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    accounts,
    platforms,
    agents,
    delegations,
    calls,
    callsTo: (method, path) => calls.filter((call) => call.method === method && call.path.includes(path)),
    fail: (prefix, failure, times = Number.POSITIVE_INFINITY) =>
      void failures.push({ prefix, failure, times }),
    heal: () => {
      failures = [];
    },
    loseAnswer: (prefix) => void lost.push(prefix),
    approve(requestId, scopes, expiresAt) {
      const delegation = byRequest(requestId);
      const now = new Date();
      const seconds = delegation.wish.expires_in as number | undefined;
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
    rotateKey: (externalId) => void replaceKey(externalId, 0),
    goAway: close,
    comeBack: listen,
    stop: close,
  };
}
