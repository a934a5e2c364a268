import { createHmac } from "node:crypto";
import type { LookupFunction } from "node:net";
import { Client, type Dispatcher } from "undici";
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

/** `limits` are in milliseconds. `deadline` is for the whole request. `ca` replaces the machine's CAs. */
type SenderDeps = {
  policy: AddressPolicy;
  resolve: Resolve;
  limits?: { dns: number; connect: number; deadline: number };
  ca?: string[];
};

const LIMITS = { dns: 2_000, connect: 5_000, deadline: 15_000 };
const UNAUTHORIZED = 401;
const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 16 * 1024;

/**
 * Creates a sender that prevents requests into our own network. For every request it resolves the name and
 * checks all addresses. It connects only to those addresses, without a proxy, and never follows redirects.
 * Reads at most 64 KiB of the response and keeps 16 KiB.
 */
export function createSender({ policy, resolve, limits = LIMITS, ca }: SenderDeps): Send {
  async function addressesOf(url: URL): Promise<string[]> {
    const fixed = fixedAddress(url);
    if (fixed !== undefined) return [fixed];
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error("no answer in time")), limits.dns);
    try {
      return await Promise.race([resolve(url.hostname), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async function sendOnce({ url: text, headers, body }: SendRequest, signal: AbortSignal): Promise<Sent> {
    const checked = callbackUrlForm(text, policy);
    if ("refused" in checked) return { fault: "forbidden_address", detail: checked.refused };
    const { url } = checked;
    let addresses: string[];
    try {
      addresses = await addressesOf(url);
    } catch (error) {
      return { fault: "dns", detail: codeOf(error) };
    }
    if (!addresses.every(policy.allows)) {
      return { fault: "forbidden_address", detail: "the host has an address that is not allowed" };
    }
    const connect = { lookup: pinned(addresses), timeout: limits.connect, ...(ca && { ca }) };
    return exchange(url, connect, { method: "POST", path: url.pathname + url.search, headers, body, signal });
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
  connect: Client.Options["connect"] & object,
  request: Omit<Dispatcher.RequestOptions, "signal"> & { signal: AbortSignal },
): Promise<Sent> {
  const client = new Client(url.origin, { connect, allowH2: false, headersTimeout: 0, bodyTimeout: 0 });
  let connected = false;
  client.once("connect", () => {
    connected = true;
  });
  try {
    const answer = await client.request({ ...request, reset: true });
    const retryAfter = answer.headers["retry-after"];
    return {
      status: answer.statusCode,
      retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
      excerpt: await readExcerpt(answer.body),
    };
  } catch (error) {
    const detail = codeOf(error);
    if (request.signal.aborted || detail === "UND_ERR_CONNECT_TIMEOUT") return { fault: "timeout", detail };
    return { fault: connected ? "network" : "connect", detail };
  } finally {
    await client.destroy().catch(() => {});
  }
}

async function readExcerpt(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const kept: Buffer[] = [];
  let read = 0;
  for await (const chunk of body) {
    if (read < KEPT_BYTES) kept.push(chunk.subarray(0, KEPT_BYTES - read));
    read += chunk.length;
    if (read >= READ_BYTES) break;
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
