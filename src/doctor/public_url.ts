import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { TLSSocket } from "node:tls";
import {
  SEEN_CLIENT_HEADER,
  SEEN_CLIENT_PATH,
  type SeenClient,
  seenClient,
  seenClientProof,
} from "../http/server/seen_client.ts";
import { isClosed, networkFault, withoutSecrets } from "../input/network_fault.ts";
import { rootOf } from "../input/url.ts";
import { createSecretBox } from "../secret_box.ts";
import { type Check, check, type Finding, failed, NotChecked, ok, skipped } from "./check.ts";

/** An address for documentation (RFC 5737). No real client has it. */
const FORGED = "192.0.2.1";
const TOTAL_MS = 6_000;
const RENEW_MS = 14 * 24 * 60 * 60 * 1000;

type Reply = { status: number; text: string; validTo: Date | undefined };
type Asked = { reply: Reply; error?: never } | { reply?: never; error: unknown };

/** Returns the checks of the way from the public URL to the API. They share one request. */
export function publicUrlChecks(): Check[] {
  let asked: Promise<Asked> | undefined;
  const ask = (url: string, key: string, now: Date): Promise<Asked> => {
    asked ??= requestSeen(url, key, now).then(
      (reply) => ({ reply }),
      (error: unknown) => ({ error }),
    );
    return asked;
  };
  return [
    check("public URL", ["BASE_URL", "SEALING_KEY"], async ({ BASE_URL, SEALING_KEY }, { now }) => {
      const { reply, error } = await ask(BASE_URL, SEALING_KEY, now());
      return reply === undefined ? explain(error, BASE_URL) : judgeReply(reply, BASE_URL, now());
    }),
    check(
      "proxy headers",
      ["BASE_URL", "SEALING_KEY", "TRUSTED_PROXIES"],
      async ({ BASE_URL, SEALING_KEY }, { now }) => {
        const { reply } = await ask(BASE_URL, SEALING_KEY, now());
        const seen = reply && seenOf(reply);
        if (seen === undefined) throw new NotChecked("no request through the public URL reaches this API");
        return judgeHeaders(seen);
      },
    ),
    check("idle connections", ["KEEP_ALIVE_SECONDS"], async ({ KEEP_ALIVE_SECONDS: seconds }) =>
      skipped(
        `the API keeps idle connections for ${seconds} s; the load balancer's time cannot be seen from here`,
        `Keep the load balancer's idle time-out below ${seconds} s, or raise KEEP_ALIVE_SECONDS.`,
      ),
    ),
  ];
}

async function requestSeen(baseUrl: string, sealingKey: string, now: Date): Promise<Reply> {
  const url = new URL(`${rootOf(baseUrl)}${SEEN_CLIENT_PATH}`);
  const proof = seenClientProof(createSecretBox(Buffer.from(sealingKey, "base64")), now);
  const outgoing = (url.protocol === "https:" ? requestHttps : requestHttp)(url, {
    agent: false,
    headers: { [SEEN_CLIENT_HEADER]: proof, "x-forwarded-for": FORGED, accept: "application/json" },
    signal: AbortSignal.timeout(TOTAL_MS),
  });
  try {
    const arriving = once(outgoing, "response");
    outgoing.end();
    const [response] = (await arriving) as [IncomingMessage];
    const socket = response.socket as Partial<TLSSocket>;
    const end = socket.getPeerCertificate?.()?.valid_to;
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk);
    return {
      status: response.statusCode ?? 0,
      text: Buffer.concat(chunks).toString(),
      validTo: end === undefined ? undefined : new Date(end),
    };
  } finally {
    outgoing.destroy();
  }
}

function seenOf({ status, text }: Reply): SeenClient | undefined {
  if (status !== 200) return undefined;
  try {
    return seenClient.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function judgeReply(reply: Reply, baseUrl: string, now: Date): Finding {
  const place = withoutSecrets(baseUrl);
  const { status, validTo } = reply;
  if (seenOf(reply) === undefined) {
    const seen = `${place} answers ${status}, but this installation's API did not answer`;
    if (status >= 500) return failed(seen, "Look into the log of the proxy: it reaches no ready API.");
    return failed(
      seen,
      "Let BASE_URL lead to the API, with all paths below it, and give all API processes the same SEALING_KEY.",
    );
  }
  if (validTo !== undefined && validTo.getTime() - now.getTime() < RENEW_MS) {
    return failed(
      `the certificate of ${place} ends on ${validTo.toISOString().slice(0, 10)}`,
      "Renew it now, and find out why it was not renewed automatically.",
    );
  }
  return ok(`${place} leads to this installation's API`);
}

/** A cluster may close the public URL to its own pods, so a missing connection decides nothing. */
function explain(error: unknown, baseUrl: string): Finding {
  const place = withoutSecrets(baseUrl);
  const fault = networkFault(error);
  const seen = `${place}: ${fault?.what ?? "no answer"}`;
  if (isClosed(error)) {
    return skipped(
      `${seen} (from here)`,
      "If this network may not use the public URL, run `deputize doctor api` outside. Otherwise check the ingress.",
    );
  }
  return failed(seen, fault?.action ?? "Let BASE_URL lead to the API.");
}

/** `forwarded_for` begins with the forged address, unless a proxy has replaced the header. */
function judgeHeaders({ peer, is_trusted, forwarded_for, client }: SeenClient): Finding {
  const hops = (forwarded_for ?? "").split(",").map((hop) => hop.trim());
  const added = hops[0] === FORGED ? hops.slice(1) : hops.filter((hop) => hop !== "");
  if (!is_trusted && added.length > 0) {
    return failed(
      `a proxy at ${peer} forwards requests, but TRUSTED_PROXIES does not contain it: all clients count as one`,
      `Add ${peer}, or the network of the proxies, to TRUSTED_PROXIES.`,
    );
  }
  if (!is_trusted) return ok(`requests arrive from ${peer}, and no proxy adds X-Forwarded-For`);
  if (client === FORGED) {
    return skipped(
      "TRUSTED_PROXIES contains this machine too, so that it may name any client",
      "Run this outside of the proxies' network. There, TRUSTED_PROXIES must not contain the client.",
    );
  }
  const [first] = added;
  if (first === undefined) {
    return failed(
      `the proxy at ${peer} adds no X-Forwarded-For header: all clients count as one`,
      "Let the proxy append the client's address to X-Forwarded-For.",
    );
  }
  if (!isSame(first, client)) {
    return failed(
      `behind ${peer}, another proxy at ${client} is not in TRUSTED_PROXIES: all clients count as one`,
      `Add ${client}, or its network, to TRUSTED_PROXIES.`,
    );
  }
  return ok(`the proxy at ${peer} is trusted, and the API sees this client as ${client}`);
}

/** A hop may have a port or brackets. */
function isSame(hop: string, address: string): boolean {
  return (
    hop === address ||
    hop === `[${address}]` ||
    hop.startsWith(`${address}:`) ||
    hop.startsWith(`[${address}]:`)
  );
}
