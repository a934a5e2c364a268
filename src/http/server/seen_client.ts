import type Koa from "koa";
import { z } from "zod";
import { type Clock, unixSeconds } from "../../clock.ts";
import type { SecretBox } from "../../secret_box.ts";
import { createClientAddress, createPeerClient } from "../client_address.ts";

/** The page that shows how a request arrived, below the base URL. */
export const SEEN_CLIENT_PATH = "/.well-known/deputize-seen-client";
/** The header with the proof that the caller knows the sealing key. */
export const SEEN_CLIENT_HEADER = "x-deputize-doctor";

const CONTEXT = "doctor";
/** Seconds for which a proof is accepted, before and after its time. Longer than clocks should differ. */
const VALID_SECONDS = 600;

/** The way of a request: its TCP peer, its `X-Forwarded-For` header, and the client that limits count. */
export const seenClient = z.object({
  peer: z.string(),
  is_trusted: z.boolean(),
  forwarded_for: z.string().nullable(),
  client: z.string(),
});
export type SeenClient = z.infer<typeof seenClient>;

/** Returns the header's value: the current time, encrypted with the sealing key. */
export function seenClientProof(box: SecretBox, now: Date): string {
  return box.box(String(unixSeconds(now)), CONTEXT).toString("base64url");
}

type SeenDeps = { secretBox: SecretBox; clock: Clock };

/**
 * Serves `GET /.well-known/deputize-seen-client` to `deputize doctor`, which knows the sealing key. For
 * anybody else the page does not exist, because it shows addresses of the installation's own proxies.
 */
export function seenClientPage(deps: SeenDeps, trustedProxies: readonly string[]): Koa.Middleware {
  const clientOf = createClientAddress(trustedProxies);
  const peerClient = createPeerClient(trustedProxies);
  return async (ctx, next) => {
    if (ctx.path !== SEEN_CLIENT_PATH || ctx.method !== "GET") return next();
    const age = ageOf(ctx.get(SEEN_CLIENT_HEADER), deps);
    if (age === undefined || Math.abs(age) > VALID_SECONDS) return next();
    const peer = ctx.req.socket.remoteAddress ?? "unknown";
    const forwardedFor = ctx.req.headers["x-forwarded-for"]?.toString();
    ctx.set("cache-control", "no-store");
    ctx.body = {
      peer: clientOf(peer, undefined),
      is_trusted: peerClient(peer) === undefined,
      forwarded_for: forwardedFor ?? null,
      client: clientOf(peer, forwardedFor),
    } satisfies SeenClient;
  };
}

/** Returns the seconds since the proof was made, or `undefined` if it is no proof. */
function ageOf(proof: string, { secretBox, clock }: SeenDeps): number | undefined {
  try {
    const seconds = Number(secretBox.unbox(Buffer.from(proof, "base64url"), CONTEXT));
    return Number.isSafeInteger(seconds) ? unixSeconds(clock.now()) - seconds : undefined;
  } catch {
    return undefined;
  }
}
