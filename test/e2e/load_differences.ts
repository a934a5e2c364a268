import { Client } from "pg";
import { type Known, keyOf } from "./load.ts";

/** Rows of the database about the callers' connections. */
export type Stored = {
  requests: Set<string>;
  certificates: Map<string, { request: string; status: string }>;
  /** Decisions by receipt. */
  decisions: Map<string, string>;
  /** Deliveries in each connection's order, and their number of attempts. */
  deliveries: { id: string; connectionId: string; attempts: number }[];
};

async function read(url: string, connections: readonly string[]): Promise<Stored> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const rows = async (sql: string) =>
    (await client.query({ text: sql, values: [connections], rowMode: "array" })).rows as string[][];
  try {
    const requests = await rows("select request_id from delegation_requests where connection_id = any ($1)");
    const certificates = await rows(
      "select cert_id, request_id, status from certificates where connection_id = any ($1)",
    );
    const decisions = await rows(
      "select event_id, decision from audit_events where connection_id = any ($1) and decision is not null",
    );
    const deliveries = await rows(
      `select delivery_id, connection_id, attempts from webhook_deliveries join webhook_endpoints using (endpoint_id)
       where connection_id = any ($1) order by aggregate_seq`,
    );
    return {
      requests: new Set(requests.map(([id = ""]) => id)),
      certificates: new Map(
        certificates.map(([id = "", request = "", status = ""]) => [id, { request, status }]),
      ),
      decisions: new Map(decisions.map(([id = "", decision = ""]) => [id, decision])),
      deliveries: deliveries.map(([id = "", connectionId = "", attempts]) => ({
        id,
        connectionId,
        attempts: Number(attempts),
      })),
    };
  } finally {
    await client.end();
  }
}

/** The differences between what callers know and what the database contains. All are empty in a good run. */
export async function differences(url: string, known: Known): Promise<Record<string, unknown[]>> {
  return compare(known, await read(url, known.connections));
}

export function compare(known: Known, stored: Stored): Record<string, unknown[]> {
  return { ...objects(known, stored), ...decisions(known, stored), ...events(known, stored) };
}

function objects(known: Known, stored: Stored): Record<string, unknown[]> {
  const unasked = [...stored.requests].filter((id) => !known.requests.has(id));
  return {
    "lost requests": [...known.requests].filter((id) => !stored.requests.has(id)),
    "lost certificates": [...known.certificates.keys()].filter((id) => !stored.certificates.has(id)),
    "lost revocations": [...known.revoked].filter((id) => stored.certificates.get(id)?.status !== "revoked"),
    "invented requests": unasked.length > known.uncertain.requests ? unasked : [],
    "invented certificates": [...stored.certificates]
      .filter(([id, { request }]) => !known.certificates.has(id) && !known.uncertain.approvals.has(request))
      .map(([id]) => id),
  };
}

function decisions(known: Known, stored: Stored): Record<string, unknown[]> {
  const answered = [...known.decisions.values()].flat();
  const receipts = new Set(answered.map(({ receiptId }) => receiptId));
  const unseen = [...stored.decisions.keys()].filter((id) => !receipts.has(id));
  const mayBeDecided = [...known.unanswered].filter((proof) => known.decisions.get(proof)?.length === 0);
  return {
    "lost decisions": answered.filter(
      ({ receiptId, decision }) => stored.decisions.get(receiptId) !== decision,
    ),
    "invented decisions": unseen.length > mayBeDecided.length ? unseen : [],
    "proofs decided twice": [...known.decisions].filter(([, all]) => all.length > 1),
    "proofs allowed after the revocation": known.allowedAfterRevocation,
  };
}

function events({ connections, received }: Known, stored: Stored): Record<string, unknown[]> {
  const caused = [...stored.certificates].flatMap(([about, { request, status }]) => [
    keyOf({ event: "delegation.approved", about: request }),
    ...(status === "revoked" ? [keyOf({ event: "delegation.revoked", about })] : []),
  ]);
  // Sent only if the callback URL is set in time.
  const created = connections.map((about) => keyOf({ event: "connection.created", about }));
  const possible = new Set([...created, ...caused]);
  const accepted = received.filter(({ isAccepted }) => isAccepted);
  const has = new Set(accepted.map(keyOf));
  const ids = Map.groupBy(received, keyOf);
  const order = new Map(stored.deliveries.map(({ id }, place) => [id, place]));
  const once = new Set(stored.deliveries.flatMap(({ id, attempts }) => (attempts === 1 ? [id] : [])));
  const disordered = [...Map.groupBy(accepted, ({ connectionId }) => connectionId)].filter(([, own]) => {
    // A failed delivery arrives after later ones. All others keep their order.
    const places = own.flatMap(({ deliveryId }) =>
      once.has(deliveryId) ? [order.get(deliveryId) ?? -1] : [],
    );
    return places.some((place, n) => place <= (places[n - 1] ?? -1));
  });
  return {
    "lost events": caused.filter((key) => !has.has(key)),
    "invented events": received.filter((one) => !possible.has(keyOf(one))),
    "events with several ids": [...ids].filter(
      ([, all]) => new Set(all.map(({ deliveryId }) => deliveryId)).size > 1,
    ),
    "deliveries that are not stored": received.filter(({ deliveryId }) => !order.has(deliveryId)),
    "wrong signatures": received.filter(({ faults }) => faults.length > 0),
    "connections with events out of order": disordered.map(([connectionId]) => connectionId),
  };
}
