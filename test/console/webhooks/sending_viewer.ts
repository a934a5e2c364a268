import { noteAttempts, type Sending, sending } from "../../deliveries/delivery_calls.ts";
import type { TestApi } from "../../support/api.ts";
import { insertRecovery } from "../../support/deliveries.ts";
import { type Customer, connect } from "../../support/two_companies.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/**
 * A viewer with a failed receiver, deliveries in every state, of which the failed one is of a customer, a
 * recovery, and a next webhook secret.
 */
export type SendingViewer = Seen & { own: Sending; customer: Customer };

/** The response and the URL of an untrusted receiver. */
type Texts = { answered: string; url: string };

const ORDINARY: Texts = {
  answered: "Service Unavailable",
  url: "https://shop.example.com/hook",
};

/** Creates a viewer of deliveries and recoveries. */
export async function sendingViewer(api: TestApi, texts: Partial<Texts> = {}): Promise<SendingViewer> {
  const { answered, url } = { ...ORDINARY, ...texts };
  const own = await sending(api, { callback_url: url });
  const states = ["held", "cancelled", "blocked", "rejected", "delivered", "sending", "pending"] as const;
  for (const [place, state] of states.entries()) await own.delivery({ state }, 600 - place * 60);
  const customer = await connect(api, { platform: own });
  const { connectionId: customer_connection_id } = customer;
  const delivery = await own.delivery({ attempts: 3, state: "failed", customer_connection_id }, 60);
  await noteAttempts(
    api,
    delivery,
    { outcome: "failed", detail: "ECONNREFUSED" },
    { outcome: "failed", detail: "TimeoutError" },
    { outcome: "failed", status: 503, response_excerpt: Buffer.from(answered) },
  );
  const now = api.clock.now();
  await insertRecovery(api.db, own.connectionId, {
    ...{ since: new Date(now.getTime() - 7_200_000), until: now, state: "done", finished_at: now },
    ...{ examined: 12, resent: 9, left_out: 3 },
  });
  await own.post("rotate-webhook-secret");
  const ids = { connection: own.connectionId, delivery };
  return { ...browserOf(api, own.person.client), ids, own, customer };
}

/** Returns a function that maps a viewer's ids to the path of this page. */
export function ofConnection(part: string) {
  return ({ connection }: Record<string, string>) => `/console/connections/${connection}/${part}`;
}
