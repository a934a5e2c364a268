import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import type { Answer, Visitor } from "../specification/visitor.ts";
import { until } from "../support/process.ts";
import type { Failover } from "../support/surroundings/postgres_pair.ts";
import type { FailoverWorld } from "./failover_world.ts";
import { openShop, type Shop } from "./shop.ts";

const KINDS = ["present", "verify", "approve"] as const;

/** A call under load. Times are in milliseconds of `performance.now()`. */
type Call = { kind: (typeof KINDS)[number]; ended: number; isGood: boolean };

/** The knowledge of callers: confirmed changes, calls without an answer, and deliveries to receivers. */
type Known = {
  calls: Call[];
  connections: string[];
  /** Number of answers `allow`, and receipts, by proof. */
  allows: Map<string, string[]>;
  /** Confirmed requests, certificates and revocations, and requests whose approval has no answer. */
  requests: Set<string>;
  certificates: Map<string, string>;
  revoked: Set<string>;
  uncertain: { requests: number; approvals: Set<string> };
  /** When the first delivery about an approved request arrived. */
  arrivals: Map<string, number>;
};

type Load = { known: Known; stop(): Promise<void> };

const SHOPS = 4;
const RETRY_MS = 50;
const CALM_MS = 3_000;
const WORKS_MS = 60_000;

/** Starts callers that present, verify, request, approve and revoke until `stop`. */
async function startLoad(bases: [string, string]): Promise<Load> {
  const known: Known = {
    calls: [],
    connections: [],
    allows: new Map(),
    requests: new Set(),
    certificates: new Map(),
    revoked: new Set(),
    uncertain: { requests: 0, approvals: new Set() },
    arrivals: new Map(),
  };
  const receiver = await startReceiver(known);
  const stopping = new AbortController();
  const shops = await Promise.all(Array.from({ length: SHOPS }, (_, n) => openShop(bases, `shop-${n}`)));
  const loops = shops.map(async (shop) => {
    known.connections.push(shop.connectionId);
    const path = `/v1/service/connections/${shop.connectionId}/callback`;
    await good(() => shop.person.call("PUT", path, { callback_url: receiver.url }));
    const kept = await approve(shop, known);
    if (kept === undefined) throw new Error("the first delegation was not approved");
    await Promise.all([
      decide(shop, 0, known, stopping.signal),
      decide(shop, 1, known, stopping.signal),
      create(shop, known, stopping.signal),
    ]);
  });
  const running = Promise.all(loops);
  // A failed loop is reported by `stop`.
  running.catch(() => undefined);
  return {
    known,
    async stop() {
      stopping.abort();
      await running;
      const has = (id: string) => known.arrivals.has(id);
      await until("every event is delivered", () => [...known.certificates.values()].every(has), WORKS_MS);
      await receiver.close();
    },
  };
}

async function startReceiver({ arrivals }: Known) {
  const server = createServer(async (request, response) => {
    const { event, request_id } = JSON.parse(await text(request));
    const isNew = event === "delegation.approved" && !arrivals.has(request_id);
    if (isNew) arrivals.set(request_id, performance.now());
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
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

const recorded =
  ({ calls }: Known, kind: Call["kind"]) =>
  (isGood: boolean) =>
    void calls.push({ kind, ended: performance.now(), isGood });

/** Presents and verifies. Sends each proof again until the service has answered it, and then once more. */
async function decide({ on, agents }: Shop, n: number, known: Known, signal: AbortSignal): Promise<void> {
  const [first, other] = [on[n] as Visitor, on[1 - n] as Visitor];
  while (!signal.aborted) {
    const { challenge } = (await good(() => first.call("POST", "/v1/service/challenge"))).body;
    const presented = await good(
      () => first.call("POST", `${agents}/present`, { challenge }),
      recorded(known, "present"),
    );
    const { proof_ref } = presented.body;
    if (typeof proof_ref !== "string") throw new Error(`present: ${presented.status} ${presented.text}`);
    const receipts: string[] = [];
    known.allows.set(proof_ref, receipts);
    for (const api of [first, other]) {
      const body = { proof_ref, required_scope: "data:read" };
      const answer = await good(
        () => api.call("POST", "/v1/service/verify", body),
        recorded(known, "verify"),
      );
      if (answer.body.decision === "allow") {
        receipts.push((answer.body.receipt as { receipt_id: string }).receipt_id);
      }
    }
  }
}

async function create(shop: Shop, known: Known, signal: AbortSignal): Promise<void> {
  const isGood = recorded(known, "approve");
  while (!signal.aborted) {
    const certificate = await approve(shop, known);
    isGood(certificate !== undefined);
    if (certificate === undefined) {
      await sleep(RETRY_MS);
      continue;
    }
    const path = `/v1/service/delegations/${certificate}/revoke`;
    const revoked = await shop.person.call("POST", path, {}).catch(() => undefined);
    if (revoked?.status === 200) known.revoked.add(certificate);
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
  const approved = await person.call("POST", path, { approved_scope: ["data:read"] }).catch(() => undefined);
  const certificate = approved?.body.cert_id;
  if (typeof certificate !== "string") {
    if (approved !== undefined && approved.status < 500) throw new Error(approved.text);
    known.uncertain.approvals.add(id);
    return undefined;
  }
  known.certificates.set(certificate, id);
  return certificate;
}

/** The differences between what callers know and what the database contains. All are empty in a good run. */
async function differences(url: string, known: Known): Promise<Record<string, unknown[]>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const column = async (sql: string) => {
    const { rows } = await client.query({ text: sql, values: [known.connections], rowMode: "array" });
    return rows as string[][];
  };
  try {
    const requests = await column(
      "select request_id from delegation_requests where connection_id = any ($1)",
    );
    const certificates = await column(
      "select cert_id, request_id, status from certificates where connection_id = any ($1)",
    );
    const allows = await column(
      "select event_id from audit_events where connection_id = any ($1) and decision = 'allow'",
    );
    const stored = {
      requests: new Set(requests.map(([id]) => id)),
      certificates: new Map(certificates.map(([id, request, status]) => [id, { request, status }])),
      allows: new Set(allows.map(([id]) => id)),
    };
    const approved = new Set(certificates.map(([, request]) => request));
    const receipts = [...known.allows.values()].flat();
    const unasked = [...stored.requests].filter((id) => !known.requests.has(id as string));
    const unanswered = known.uncertain.requests;
    return {
      "lost requests": [...known.requests].filter((id) => !stored.requests.has(id)),
      "lost certificates": [...known.certificates.keys()].filter((id) => !stored.certificates.has(id)),
      "lost revocations": [...known.revoked].filter(
        (id) => stored.certificates.get(id)?.status !== "revoked",
      ),
      "lost decisions": receipts.filter((id) => !stored.allows.has(id)),
      "invented requests": unasked.length > unanswered ? unasked : [],
      "invented certificates": [...stored.certificates]
        .filter(
          ([id, { request }]) =>
            !known.certificates.has(id as string) && !known.uncertain.approvals.has(request as string),
        )
        .map(([id]) => id),
      "invented decisions": stored.allows.size > known.allows.size ? [...stored.allows] : [],
      "proofs allowed twice": [...known.allows].filter(([, ids]) => ids.length > 1),
      "deliveries without an event": [...known.arrivals.keys()].filter((id) => !approved.has(id)),
    };
  } finally {
    await client.end();
  }
}

/** Milliseconds from `since` to the last failed call, or to the first good one if none failed, by kind. */
function outages({ calls, arrivals }: Known, since: number): Record<string, number> {
  const found: Record<string, number> = {};
  for (const kind of KINDS) {
    const own = calls.filter((call) => call.kind === kind && call.ended > since);
    const failed = own.filter(({ isGood }) => !isGood).map(({ ended }) => ended);
    const first = own.filter(({ isGood }) => isGood).map(({ ended }) => ended);
    found[kind] = Math.round(Math.max(...failed, Math.min(...first)) - since);
  }
  found.delivery = Math.round(Math.min(...[...arrivals.values()].filter((at) => at > since)) - since);
  return found;
}

/** The result of failovers under load. `outages` are in milliseconds after the new primary was writable. */
export type FailoverReport = {
  outages: ({ how: Failover; promotion: number } & Record<string, number | string>)[];
  longestMs: number;
  differences: Record<string, unknown[]>;
  counts: Record<string, number>;
};

/** Fails over once for each of `hows` under load, and then compares what callers know with the database. */
export async function failOverUnderLoad(
  world: FailoverWorld,
  hows: readonly Failover[],
): Promise<FailoverReport> {
  const { known, stop } = await startLoad(world.bases);
  const found: FailoverReport["outages"] = [];
  await sleep(CALM_MS);
  for (const how of hows) {
    const began = performance.now();
    const since = await world.failOver(how);
    const works = () =>
      Object.values(outages(known, since)).every(Number.isFinite) &&
      known.calls.slice(-20).every(({ isGood }) => isGood);
    await until(`everything works after a failover (${how})`, works, WORKS_MS);
    await sleep(CALM_MS);
    found.push({ how, promotion: Math.round(since - began), ...outages(known, since) });
    await until("every process is ready", async () => {
      return Object.values(await world.readiness()).every((status) => status === 200);
    });
    await world.renew();
    await sleep(CALM_MS);
  }
  await stop();
  return {
    outages: found,
    longestMs: Math.max(
      ...found.flatMap(({ how: _, promotion: __, ...own }) => Object.values(own).map(Number)),
    ),
    differences: await differences(world.superuserUrl("deputize"), known),
    counts: {
      calls: known.calls.length,
      proofs: known.allows.size,
      certificates: known.certificates.size,
      revocations: known.revoked.size,
      deliveries: known.arrivals.size,
    },
  };
}
