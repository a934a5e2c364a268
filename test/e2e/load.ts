import { setTimeout as sleep } from "node:timers/promises";
import { type Received, startReceiver } from "../events/support/receiver.ts";
import type { Answer, Visitor } from "../specification/visitor.ts";
import { until } from "../support/process.ts";
import { openShop, type Shop } from "./shop.ts";

export const KINDS = ["present", "verify", "approve"] as const;

/** A call under load. Times are in milliseconds of `performance.now()`. */
type Call = { kind: (typeof KINDS)[number]; ended: number; isGood: boolean };

/** A webhook that a receiver got. `about` is the id of its certificate, request or connection. */
type Arrival = Pick<Received, "deliveryId" | "faults"> & {
  connectionId: string;
  event: string;
  about: string;
  isAccepted: boolean;
};

/** The knowledge of callers: confirmed changes, calls without an answer, and deliveries to receivers. */
export type Known = {
  calls: Call[];
  connections: string[];
  /** Receipts of all answered decisions about a proof. Proofs in `unanswered` have lost an answer. */
  decisions: Map<string, { receiptId: string; decision: string }[]>;
  unanswered: Set<string>;
  /** Confirmed requests, certificates and revocations, and requests whose approval has no answer. */
  requests: Set<string>;
  certificates: Map<string, string>;
  revoked: Set<string>;
  uncertain: { requests: number; approvals: Set<string> };
  allowedAfterRevocation: string[];
  /** How often the first answer about a proof was not `allow`, by reason of the decision or error code. */
  refusals: Map<string, number>;
  /** When the first delivery about an approved request arrived, and all deliveries in their order. */
  arrivals: Map<string, number>;
  received: Arrival[];
};

/** Decides how the receiver answers a delivery: with a status, or itself. */
export type Answering = (received: Received, response: Parameters<ReceiverReply>[1]) => number | undefined;
type ReceiverReply = Awaited<ReturnType<typeof startReceiver>>["reply"];

/** `hook` maps a receiver's URL to the callback URL. `pauseMs` is the pause between a caller's rounds. */
export type LoadOptions = { answer?: Answering; hook?(url: string): string; pauseMs?: number };

export type Load = {
  known: Known;
  /** Rejects if a caller gets an unexpected answer. */
  running: Promise<unknown>;
  /** Ends the callers and waits until every event is delivered. `hurry` may shorten waits for retries. */
  stop(settled?: { hurry?(): Promise<void>; ms?: number }): Promise<void>;
};

const SHOPS = 4;
const RETRY_MS = 50;
const STALE_MS = 10_000;
export const WORKS_MS = 60_000;
/** A session lasts 15 minutes. */
const SIGN_IN_MS = 10 * 60_000;
/** Proofs of a certificate that are shown after its revocation. */
const STALE_PROOFS = 2;

/** Starts callers that present, verify, request, approve and revoke at these APIs until `stop`. */
export async function startLoad(
  bases: readonly [string, ...string[]],
  { answer = () => 204, hook = (url) => url, pauseMs = 0 }: LoadOptions = {},
): Promise<Load> {
  const known: Known = {
    calls: [],
    connections: [],
    decisions: new Map(),
    unanswered: new Set(),
    requests: new Set(),
    certificates: new Map(),
    revoked: new Set(),
    uncertain: { requests: 0, approvals: new Set() },
    allowedAfterRevocation: [],
    refusals: new Map(),
    arrivals: new Map(),
    received: [],
  };
  const receiver = await startReceiver();
  receiver.reply = (received, response) => {
    receiver.requests.length = 0;
    const status = answer(received, response);
    const { deliveryId, faults, event } = received;
    const about = String(event.cert_id ?? event.request_id ?? event.connection_id);
    const isAccepted =
      status === undefined ? response.statusCode === 200 && response.headersSent : status < 300;
    const connectionId = String(event.connection_id);
    known.received.push({ deliveryId, faults, connectionId, event: String(event.event), about, isAccepted });
    const isNew = isAccepted && event.event === "delegation.approved" && !known.arrivals.has(about);
    if (isNew) known.arrivals.set(about, performance.now());
    return status;
  };
  const stopping = new AbortController();
  const shops = await Promise.all(Array.from({ length: SHOPS }, (_, n) => openShop(bases, `shop-${n}`)));
  const context = { known, pauseMs, signal: stopping.signal };
  const loops = shops.map(async (shop) => {
    known.connections.push(shop.connectionId);
    receiver.secrets.set(shop.connectionId, shop.secret);
    const path = `/v1/service/connections/${shop.connectionId}/callback`;
    await good(() => shop.person.call("PUT", path, { callback_url: hook(receiver.url) }));
    while ((await approve(shop, known)) === undefined) await sleep(RETRY_MS);
    await Promise.all([decide(shop, 0, context), decide(shop, 1, context), create(shop, context)]);
  });
  const running = Promise.all(loops);
  // A failed loop is reported by `stop`.
  running.catch(() => undefined);
  return {
    known,
    running,
    async stop({ hurry, ms = WORKS_MS } = {}) {
      stopping.abort();
      await running;
      const accepted = () => new Set(known.received.flatMap((one) => (one.isAccepted ? [keyOf(one)] : [])));
      await until(
        "every event is delivered",
        async () => {
          await hurry?.();
          const has = accepted();
          return expectedEvents(known).every((key) => has.has(key));
        },
        ms,
      );
      await receiver.close();
    },
  };
}

/** Returns the kind of an event and the object that it is about. */
export const keyOf = ({ event, about }: Pick<Arrival, "event" | "about">): string => `${event} ${about}`;

/**
 * Returns the events that the callers' confirmed changes must cause. `connection.created` is not one of them:
 * a connection gets its callback URL later, and the service keeps no earlier events for it.
 */
export function expectedEvents({ certificates, revoked }: Known): string[] {
  return [
    ...[...certificates.values()].map((about) => keyOf({ event: "delegation.approved", about })),
    ...[...revoked].map((about) => keyOf({ event: "delegation.revoked", about })),
  ];
}

/** Calls until the service answers with something else than a fault. Returns the answer. */
async function good(call: () => Promise<Answer>, record?: (isGood: boolean) => void): Promise<Answer> {
  for (;;) {
    const answer = await call().catch(() => undefined);
    const isGood = answer !== undefined && answer.status < 500;
    record?.(isGood);
    if (isGood) return answer;
    await sleep(RETRY_MS);
  }
}

/** Repeats a call that finds nothing, because for about a second after a failover reads may be old. */
async function fresh(call: () => Promise<Answer>): Promise<Answer> {
  const giveUp = performance.now() + STALE_MS;
  for (;;) {
    const answer = await call();
    if (answer.status !== 404 || performance.now() > giveUp) return answer;
    await sleep(RETRY_MS);
  }
}

const recorded =
  ({ calls }: Known, kind: Call["kind"]) =>
  (isGood: boolean) =>
    void calls.push({ kind, ended: performance.now(), isGood });

type Context = { known: Known; pauseMs: number; signal: AbortSignal };

/** Returns a new proof, of this certificate if given. */
async function present(api: Visitor, { agents }: Shop, known: Known, certId?: string): Promise<string> {
  const { challenge } = (await good(() => api.call("POST", "/v1/service/challenge"))).body;
  const choice = { challenge, ...(certId !== undefined && { cert_id: certId }) };
  const presented = await fresh(() =>
    good(() => api.call("POST", `${agents}/present`, choice), recorded(known, "present")),
  );
  const { proof_ref } = presented.body;
  if (typeof proof_ref !== "string") throw new Error(`present: ${presented.status} ${presented.text}`);
  known.decisions.set(proof_ref, []);
  return proof_ref;
}

/** Sends a proof until the service has answered it. Returns the decision, if there is one. */
async function verify(api: Visitor, proof: string, known: Known): Promise<string | undefined> {
  const body = { proof_ref: proof, required_scope: "data:read" };
  const record = recorded(known, "verify");
  const answer = await good(
    () => api.call("POST", "/v1/service/verify", body),
    (isGood) => {
      record(isGood);
      if (!isGood) known.unanswered.add(proof);
    },
  );
  const { decision, decision_reason: reason, receipt, error } = answer.body;
  const isFirst = known.decisions.get(proof)?.length === 0 && !known.unanswered.has(proof);
  if (isFirst && decision !== "allow") {
    const refusal = String(reason ?? (error as { code?: string } | undefined)?.code ?? answer.status);
    known.refusals.set(refusal, (known.refusals.get(refusal) ?? 0) + 1);
  }
  if (typeof decision !== "string") return undefined;
  const { receipt_id: receiptId } = receipt as { receipt_id: string };
  known.decisions.get(proof)?.push({ receiptId, decision });
  return decision;
}

/** Presents and verifies. Sends each proof until it is answered, and then once to another API. */
async function decide(shop: Shop, from: number, { known, pauseMs, signal }: Context): Promise<void> {
  const { on } = shop;
  for (let n = from; !signal.aborted; n += 1) {
    const [first, other] = [on[n % on.length] as Visitor, on[(n + 1) % on.length] as Visitor];
    const proof = await present(first, shop, known);
    await verify(first, proof, known);
    await verify(other, proof, known);
    await sleep(pauseMs);
  }
}

/** Approves and revokes certificates. Shows proofs of each one before, during and after its revocation. */
async function create(shop: Shop, { known, pauseMs, signal }: Context): Promise<void> {
  const isGood = recorded(known, "approve");
  let signedIn = performance.now();
  for (let n = 0; !signal.aborted; n += 1) {
    if (performance.now() - signedIn > SIGN_IN_MS) {
      await good(() => shop.signIn());
      signedIn = performance.now();
    }
    const certificate = await approve(shop, known);
    isGood(certificate !== undefined);
    if (certificate === undefined) {
      await sleep(RETRY_MS);
      continue;
    }
    const api = shop.on[n % shop.on.length] as Visitor;
    const proofs: string[] = [];
    while (proofs.length <= STALE_PROOFS) proofs.push(await present(api, shop, known, certificate));
    const [racing = "", ...stale] = proofs;
    const path = `/v1/service/delegations/${certificate}/revoke`;
    const [revoked] = await Promise.all([
      fresh(() => good(() => shop.person.call("POST", path, {}))),
      verify(api, racing, known),
    ]);
    if (revoked.status !== 200) throw new Error(`revoke: ${revoked.status} ${revoked.text}`);
    known.revoked.add(certificate);
    for (const [k, proof] of stale.entries()) {
      const decision = await verify(shop.on[(n + k) % shop.on.length] as Visitor, proof, known);
      if (decision === "allow") known.allowedAfterRevocation.push(proof);
    }
    await sleep(pauseMs);
  }
}

/** Requests and approves a delegation. Returns its certificate, or `undefined` without an answer. */
async function approve({ person, connectionId }: Shop, known: Known): Promise<string | undefined> {
  const asked = { connection_id: connectionId };
  const requested = await person
    .call("POST", "/v1/service/delegations/self-request", asked)
    .catch(() => undefined);
  const id = requested?.body.request_id;
  if (typeof id !== "string") {
    if (requested !== undefined && requested.status < 500) throw new Error(requested.text);
    known.uncertain.requests += 1;
    return undefined;
  }
  known.requests.add(id);
  const path = `/v1/service/delegations/requests/${id}/approve`;
  const body = { approved_scope: ["data:read"] };
  const approved = await fresh(() => person.call("POST", path, body)).catch(() => undefined);
  const certificate = approved?.body.cert_id;
  if (typeof certificate !== "string") {
    if (approved !== undefined && approved.status < 500) throw new Error(approved.text);
    known.uncertain.approvals.add(id);
    return undefined;
  }
  known.certificates.set(certificate, id);
  return certificate;
}
