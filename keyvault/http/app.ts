import type { TLSSocket } from "node:tls";
import Router from "@koa/router";
import Koa from "koa";
import type { Journal } from "../audit/journal.ts";
import { recordRefusal } from "../audit/refusals.ts";
import type { Clock } from "../clock.ts";
import {
  type ErrorCode,
  errorBody,
  errorCodes,
  isRefusal,
  type Refusal,
  refuse,
  VaultError,
} from "../errors.ts";
import type { Sealing } from "../lifecycle/sealing.ts";
import type { Logger } from "../log.ts";
import type { Readiness } from "../readiness.ts";
import type { ReadStatus } from "../status.ts";
import type { Trust } from "../tls/trust.ts";
import { createPeerCheck, createPeerReader, holds, type Peer } from "./caller.ts";
import { type Call, createCalls, isKeyId, type Operations } from "./calls.ts";
import { createSealCalls } from "./seal_calls.ts";

/** What the application needs besides the operations. */
export type AppParts = {
  /** What the vault can be asked; undefined while it is sealed. */
  operations(): Operations | undefined;
  readiness: Readiness;
  /** Where attempts are recorded; undefined while the vault was never open. */
  journal(): Pick<Journal, "record"> | undefined;
  sealing: Sealing;
  readStatus: ReadStatus;
  trust: Pick<Trust, "accepts" | "generation">;
  clock: Clock;
  log: Logger;
};

/** The vault's HTTP application. Every answer is JSON; every error has the one error body. */
export function createApp(parts: AppParts): Koa {
  const { operations, readiness, journal, sealing, trust, clock, log } = parts;
  const isAccepted = createPeerCheck(trust);
  const readPeer = createPeerReader();
  const router = routesOf(createSealCalls(parts));
  const opened = new WeakMap<Operations, Router>();
  router.get("/livez", (context) => {
    context.body = { status: "live" };
  });
  router.get("/readyz", async (context) => {
    await readiness.check();
    context.body = { status: "ready" };
  });

  function routesOf(calls: readonly Call[]): Router {
    const routes = new Router();
    for (const call of calls) {
      routes.register(call.path, [call.method], async (context) => {
        const result = await invoke(call, context, authenticate(context));
        if (!isRefusal(result)) context.body = result;
        else {
          answerError(context, result.refused, result.message);
          if (result.retryAfterSeconds !== undefined)
            context.set("retry-after", String(result.retryAfterSeconds));
        }
      });
    }
    return routes;
  }

  async function answerOpen(context: Koa.ParameterizedContext, next: Koa.Next): Promise<void> {
    const current = operations();
    if (current === undefined) {
      authenticate(context as Koa.Context);
      throw new VaultError("sealed");
    }
    const routes = opened.get(current) ?? routesOf(createCalls(current));
    opened.set(current, routes);
    await routes.routes()(context as never, next);
  }

  function authenticate(context: Koa.Context): Peer["caller"] {
    const peer = readPeer(context.req.socket as TLSSocket);
    if (peer === undefined) throw new VaultError("forbidden", "The certificate gives no role");
    if (!holds(peer, clock.now())) throw new VaultError("forbidden", "The certificate has expired");
    return peer.caller;
  }

  async function invoke(call: Call, context: Koa.Context, caller: Peer["caller"]): Promise<object | Refusal> {
    const keyId: string = context.params.id ?? "";
    const early = earlyRefusal(call, caller, keyId);
    if (early !== undefined) return recordCall(call, caller, keyId, early);
    try {
      return await call.handle({ caller, keyId, context });
    } catch (error) {
      if (!(error instanceof VaultError) || error.code !== "invalid_request") throw error;
      return recordCall(call, caller, keyId, refuse("invalid_request", error.message));
    }
  }

  /** Refusals that no operation saw are recorded here, so that no attempt to change or sign goes unseen. */
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

  async function requireAccepted(context: Koa.Context, next: Koa.Next): Promise<void> {
    if (!isAccepted(context.req.socket as TLSSocket)) {
      context.set("connection", "close");
      throw new VaultError(
        "forbidden",
        "The certificate was revoked, or its authority is not trusted any more",
      );
    }
    await next();
  }

  async function answerErrors(context: Koa.Context, next: Koa.Next): Promise<void> {
    context.set("cache-control", "no-store");
    try {
      await next();
      if (context.status === 404 && context.body === undefined)
        answerError(context, "not_found", errorCodes.not_found[1]);
    } catch (error) {
      const known = error instanceof VaultError ? error : new VaultError("internal");
      const level = errorCodes[known.code][0] >= 500 ? "error" : "warn";
      log[level]({
        event: "call_failed",
        code: known.code,
        path: context.path,
        err: known.code === "internal" ? error : known.cause,
      });
      answerError(context, known.code, known.message);
    }
  }

  const app = new Koa();
  app.silent = true;
  app.use(answerErrors).use(requireAccepted).use(router.routes()).use(answerOpen);
  return app;
}

function earlyRefusal(call: Call, caller: Peer["caller"], keyId: string): Refusal | undefined {
  if (!call.roles.includes(caller.role)) return refuse("forbidden");
  return call.path.includes(":id") && !isKeyId(keyId) ? refuse("key_not_found") : undefined;
}

function answerError(context: Koa.Context, code: ErrorCode, message: string): void {
  context.status = errorCodes[code][0];
  if (context.status === 503) context.set("retry-after", "1");
  context.body = errorBody(code, message);
  if (!context.req.complete) context.set("connection", "close");
}
