import type { IncomingMessage, RequestListener } from "node:http";
import type { TLSSocket } from "node:tls";
import { type Journal, recordRefusal } from "../audit/journal.ts";
import type { Clock } from "../clock.ts";
import { type ErrorCode, errorCodes, isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import type { Sealing } from "../lifecycle/sealing.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Readiness, ReadStatus } from "../status.ts";
import type { Trust } from "../tls/trust.ts";
import { createSealCalls } from "./admin_calls.ts";
import { createCalls, isKeyId, type Operations } from "./calls.ts";
import { createPeerCheck, createPeerReader, isValidAt, type Peer } from "./peer_certificate.ts";
import { errorReply, type Reply, sendReply } from "./reply.ts";
import {
  type Call,
  type CallContext,
  contextOf,
  createRoutes,
  type FindRoute,
  pathOf,
  type Route,
} from "./routes.ts";

/** Dependencies of the application, in addition to the operations. */
export type AppParts = {
  /** Returns the operations, or `undefined` while the vault is sealed. */
  operations(): Operations | undefined;
  readiness: Readiness;
  /** Returns the journal that records attempts, or `undefined` if the vault has never been opened. */
  journal(): Pick<Journal, "record"> | undefined;
  sealing: Sealing;
  readStatus: ReadStatus;
  trust: Pick<Trust, "accepts" | "generation">;
  metrics: Pick<Metrics, "calls">;
  clock: Clock;
  log: Logger;
};

/** Metric labels of a request: the call at its path (`other` if there is none), and its result. */
type Seen = { call: string; result: ErrorCode | "answered" };

/** Maximum number of path characters in the log. */
const LOGGED_PATH = 128;

/**
 * Returns the vault's HTTP application. Responses are JSON, except a backup. All errors have the same body
 * format.
 */
export function createApp(parts: AppParts): RequestListener {
  const { operations, readiness, journal, sealing, trust, metrics, clock, log } = parts;
  const isAccepted = createPeerCheck(trust);
  const readPeer = createPeerReader();
  const findSealed = createRoutes(createSealCalls(parts));
  const opened = new WeakMap<Operations, FindRoute>();

  async function answer(request: IncomingMessage, seen: Seen): Promise<Reply> {
    const path = pathOf(request);
    requireAccepted(request);
    requireHost(request);
    const isProbe = request.method === "GET" || request.method === "HEAD";
    if (isProbe && path === "/livez") return { status: 200, body: { status: "live" } };
    if (isProbe && path === "/readyz") {
      await readiness.check();
      return { status: 200, body: { status: "ready" } };
    }
    const route = findSealed(request.method, path) ?? findOpen(request, path);
    if (route === undefined) {
      seen.result = "not_found";
      return errorReply(request, "not_found", errorCodes.not_found[1]);
    }
    seen.call = `${route.call.method} ${route.call.path}`;
    const requireCaller = (): void => {
      requireAccepted(request);
      authenticate(request);
    };
    const context = contextOf(request, route.params, requireCaller);
    const result = await invoke(route.call, context, authenticate(request));
    if (!isRefusal(result)) return { status: 200, body: result };
    seen.result = result.refused;
    const reply = errorReply(request, result.refused, result.message);
    if (result.retryAfterSeconds === undefined) return reply;
    return { ...reply, headers: { ...reply.headers, "retry-after": String(result.retryAfterSeconds) } };
  }

  function findOpen(request: IncomingMessage, path: string): Route | undefined {
    const current = operations();
    if (current === undefined) {
      authenticate(request);
      throw new VaultError("sealed");
    }
    const find = opened.get(current) ?? createRoutes(createCalls(current));
    opened.set(current, find);
    return find(request.method, path);
  }

  function authenticate(request: IncomingMessage): Peer["caller"] {
    const peer = readPeer(request.socket as TLSSocket);
    if (peer === undefined) throw new VaultError("forbidden", "The certificate gives no role");
    if (!isValidAt(peer, clock.now())) throw new VaultError("forbidden", "The certificate has expired");
    return peer.caller;
  }

  async function invoke(call: Call, context: CallContext, caller: Peer["caller"]): Promise<object | Refusal> {
    const keyId = context.params.id ?? "";
    const early = earlyRefusal(call, caller, keyId);
    if (early !== undefined) return recordCall(call, caller, keyId, early);
    try {
      return await call.handle({ caller, keyId, context });
    } catch (error) {
      if (!(error instanceof VaultError) || error.code !== "invalid_request") throw error;
      return recordCall(call, caller, keyId, refuse("invalid_request", error.message));
    }
  }

  /**
   * Records refusals that no operation has recorded, so that every attempt to change or sign is in the audit.
   */
  async function recordCall(
    call: Call,
    caller: Peer["caller"],
    keyId: string,
    refusal: Refusal,
  ): Promise<Refusal> {
    if (call.method === "GET" && refusal.refused !== "forbidden") return refusal;
    const detail = { call: `${call.method} ${call.path}` };
    const recorder = sealing.state() === undefined ? journal() : undefined;
    if (recorder === undefined) {
      log.warn({ event: "refused_while_sealed", ...detail, caller: caller.name, role: caller.role });
      return refusal;
    }
    return recordRefusal(
      recorder,
      { caller, statement: "call", detail, ...(isKeyId(keyId) && { keyId }) },
      refusal,
    );
  }

  function requireAccepted(request: IncomingMessage): void {
    if (isAccepted(request.socket as TLSSocket)) return;
    throw new PeerError("The certificate was revoked, or its authority is no longer trusted");
  }

  function failedReply(request: IncomingMessage, seen: Seen, error: unknown): Reply {
    const known = error instanceof VaultError ? error : new VaultError("internal");
    seen.result = known.code;
    const level = errorCodes[known.code][0] >= 500 ? "error" : "warn";
    log[level]({
      event: "call_failed",
      code: known.code,
      path: loggedPath(request),
      err: known.code === "internal" ? error : known.cause,
    });
    const reply = errorReply(request, known.code, known.message);
    return known instanceof PeerError
      ? { ...reply, headers: { ...reply.headers, connection: "close" } }
      : reply;
  }

  return (request, response) => {
    response.on("error", () => {});
    const seen: Seen = { call: "other", result: "answered" };
    const startedAt = performance.now();
    void answer(request, seen)
      .catch((error: unknown) => failedReply(request, seen, error))
      .then((reply) => {
        metrics.calls.observe(seen, (performance.now() - startedAt) / 1000);
        return sendReply(response, reply);
      })
      .catch((error: unknown) =>
        log.warn({ event: "answer_cut_off", path: loggedPath(request), err: error }),
      );
  };
}

/** Returns the first characters of a request's path for the log. A path may be 16 KB long. */
function loggedPath(request: IncomingMessage): string {
  return pathOf(request).slice(0, LOGGED_PATH);
}

function requireHost({ headers, httpVersion }: IncomingMessage): void {
  if (headers.host === undefined && httpVersion === "1.1") {
    throw new VaultError("invalid_request", "host: missing");
  }
}

/**
 * Error for a client whose certificate the vault no longer accepts. The connection closes after the response.
 */
class PeerError extends VaultError {
  constructor(message: string) {
    super("forbidden", message);
  }
}

function earlyRefusal(call: Call, caller: Peer["caller"], keyId: string): Refusal | undefined {
  if (!call.roles.includes(caller.role)) return refuse("forbidden");
  return call.path.includes(":id") && !isKeyId(keyId) ? refuse("key_not_found") : undefined;
}
