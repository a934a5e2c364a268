import { createHmac } from "node:crypto";
import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { type RequestOptions, request as requestHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { unixSeconds } from "../clock.ts";
import { type AddressPolicy, callbackUrlForm, fixedAddress, type Resolve } from "./callback_address.ts";
import type { Sent } from "./retries_and_suspension.ts";

type Signable = { deliveryId: string; body: string };

const PREFIX = "whsec_";

/**
 * Returns the headers of a delivery: those of the specification (§6) and those of Standard Webhooks. `word`
 * is a part of header names, such as `X-Service-Signature` for `service`.
 *
 * The key of the specification's signature is the text of the secret. The key of the Standard Webhooks
 * signature is the bytes that the text encodes. During a rotation, `webhook-signature` also contains
 * signatures with the secrets in `others`.
 */
export function signedHeaders(
  { deliveryId, body }: Signable,
  secret: string,
  now: Date,
  word: string,
  others: readonly string[] = [],
): Record<string, string> {
  const timestamp = String(unixSeconds(now));
  const name = `X-${word.charAt(0).toUpperCase()}${word.slice(1)}`;
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  const standard = [secret, ...others].map((each) =>
    createHmac("sha256", keyBytes(each)).update(`${deliveryId}.${timestamp}.${body}`).digest("base64"),
  );
  return {
    "Content-Type": "application/json",
    "User-Agent": "Deputize-Webhooks/1",
    [`${name}-Signature`]: signature,
    [`${name}-Timestamp`]: timestamp,
    [`${name}-Delivery-ID`]: deliveryId,
    "webhook-id": deliveryId,
    "webhook-timestamp": timestamp,
    "webhook-signature": standard.map((each) => `v1,${each}`).join(" "),
  };
}

function keyBytes(secret: string): Buffer {
  return secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : Buffer.from(secret);
}

/** Sends one request to a callback URL. Never rejects. */
export type Send = (request: SendRequest) => Promise<Sent>;

/**
 * If the receiver answers 401, the sender sends the body once more with the headers that `otherHeaders`
 * returns, if any. The first deadline still applies.
 */
type SendRequest = {
  url: string;
  headers: Record<string, string>;
  body: string;
  otherHeaders?: () => Promise<Record<string, string> | undefined>;
};

/** `ca` replaces the machine's CAs. */
type SenderDeps = { policy: AddressPolicy; resolve: Resolve; limits?: Limits; ca?: string[] };

/**
 * Limits in milliseconds: for the lookup, for the connection with TLS, for the body, and for everything
 * together. `deadline` ends every step.
 */
type Limits = { dns: number; connect: number; body: number; deadline: number };

const LIMITS: Limits = { dns: 4_000, connect: 5_000, body: 2_000, deadline: 15_000 };
const UNAUTHORIZED = 401;
const HEADER_BYTES = 64 * 1024;
const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 16 * 1024;

/**
 * Creates a sender that prevents requests into our own network. For every request it resolves the name and
 * checks all addresses. It connects only to those addresses, without a proxy, and never follows redirects.
 *
 * The status alone decides. The body is only for people: a body that is broken, slow or unfinished changes
 * nothing. Reads at most 64 KiB of it and keeps 16 KiB.
 */
export function createSender({ policy, resolve, limits = LIMITS, ca }: SenderDeps): Send {
  async function sendOnce({ url: text, headers, body }: SendRequest, signal: AbortSignal): Promise<Sent> {
    const checked = callbackUrlForm(text, policy);
    if ("refused" in checked) return { fault: "forbidden_address", detail: checked.refused };
    const { url } = checked;
    const fixed = fixedAddress(url);
    let addresses: string[];
    try {
      const within = AbortSignal.any([signal, AbortSignal.timeout(limits.dns)]);
      addresses = fixed === undefined ? await resolve(url.hostname, within) : [fixed];
    } catch (error) {
      return { fault: "dns", detail: codeOf(error) };
    }
    if (!addresses.every(policy.allows)) {
      return { fault: "forbidden_address", detail: "the host has an address that is not allowed" };
    }
    const options = {
      method: "POST",
      headers: { ...headers, "Content-Length": Buffer.byteLength(body) },
      agent: false,
      maxHeaderSize: HEADER_BYTES,
      lookup: pinned(addresses),
      autoSelectFamily: true,
      // Every address gets the same part of the time, so that a silent one leaves time for the others.
      autoSelectFamilyAttemptTimeout: Math.ceil(limits.connect / (addresses.length + 1)),
      signal,
      ...(ca && { ca }),
    };
    return exchange(url, options, { body, limits });
  }

  return async function send(request) {
    const signal = AbortSignal.timeout(limits.deadline);
    const sent = await sendOnce(request, signal);
    if (!("status" in sent) || sent.status !== UNAUTHORIZED) return sent;
    const headers = await request.otherHeaders?.();
    return headers === undefined ? sent : sendOnce({ ...request, headers }, signal);
  };
}

async function exchange(
  url: URL,
  options: RequestOptions & { signal: AbortSignal },
  { body, limits }: { body: string; limits: Limits },
): Promise<Sent> {
  const isSecure = url.protocol === "https:";
  let outgoing: ClientRequest | undefined;
  const giveUp = () => outgoing?.destroy(Object.assign(new Error("no connection"), { code: "ETIMEDOUT" }));
  const connecting = setTimeout(giveUp, limits.connect);
  let isConnected = false;
  try {
    outgoing = (isSecure ? requestHttps : requestHttp)(url, options);
    outgoing.once("socket", (socket) =>
      socket.once(isSecure ? "secureConnect" : "connect", () => {
        isConnected = true;
        clearTimeout(connecting);
      }),
    );
    const arriving = once(outgoing, "response");
    // An error after the response has no other listener.
    outgoing.on("error", () => {}).end(body);
    const [response] = (await arriving) as [IncomingMessage];
    return {
      status: response.statusCode as number,
      retryAfter: response.headers["retry-after"],
      excerpt: await readExcerpt(response, limits.body),
    };
  } catch (error) {
    if (options.signal.aborted) return { fault: "timeout", detail: codeOf(options.signal.reason) };
    const detail = codeOf(error);
    if (isConnected) return { fault: "network", detail };
    return { fault: detail === "ETIMEDOUT" ? "timeout" : "connect", detail };
  } finally {
    clearTimeout(connecting);
    outgoing?.destroy();
  }
}

/** Returns the beginning of a body, as far as it arrives within `ms`. Never rejects. */
async function readExcerpt(response: IncomingMessage, ms: number): Promise<Buffer> {
  const kept: Buffer[] = [];
  let read = 0;
  const late = setTimeout(() => response.destroy(), ms);
  try {
    for await (const chunk of response) {
      if (read < KEPT_BYTES) kept.push(chunk.subarray(0, KEPT_BYTES - read));
      read += chunk.length;
      if (read >= READ_BYTES) break;
    }
  } catch {
    // The status has decided already.
  } finally {
    clearTimeout(late);
  }
  return Buffer.concat(kept);
}

/** Always answers with the checked addresses, so that the name cannot change after the check. */
function pinned(addresses: string[]): LookupFunction {
  const entries = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  return (_name, options, done) => {
    if (options.all) return done(null, entries);
    const [first] = entries;
    if (first === undefined) return done(new Error("the host has no address"), "");
    done(null, first.address, first.family);
  };
}

/** Never returns the error's message, which may contain request data. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}
