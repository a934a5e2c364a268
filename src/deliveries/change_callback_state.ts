import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { lockConnection } from "../platforms/connection_lock.ts";
import { findConnection } from "../platforms/platform_record.ts";
import { type Backlog, pauseEndpoint, resumeEndpoint } from "../webhooks/endpoint.ts";
import type { SendingRates } from "./rates.ts";
import { requireCallback } from "./require_callback.ts";
import type { OwnConnection } from "./webhook_secret.ts";

type Deps = { db: Database; clock: Clock };
type ResumeDeps = Deps & { sendingRates: Pick<SendingRates, "takeResume"> };

/**
 * Pauses a connection's callback, also a suspended one: nothing more is sent, and events are held. May be
 * repeated. Throws `not_found`, `no_callback`.
 */
export async function pauseCallback(deps: Deps, own: OwnConnection): Promise<void> {
  await change(deps, own, (tx, connectionId) => pauseEndpoint(tx, connectionId, deps.clock.now()));
}

/**
 * Ends a pause or a suspension; what was held is sent, or dropped for good with the recovery that is open.
 * May be repeated. Throws `not_found`, `no_callback`: without a URL what was held would only be cancelled;
 * and `rate_limited`, since each time a thousand rows are moved, and sent to a URL that can be anybody's.
 */
export async function resumeCallback(deps: ResumeDeps, own: OwnConnection, backlog: Backlog): Promise<void> {
  const { connection_id } = await findConnection(deps.db, own.accountId, own.connectionId);
  await deps.sendingRates.takeResume(connection_id);
  await change(deps, own, (tx, connectionId) => resumeEndpoint(tx, connectionId, backlog, deps.clock.now()));
}

async function change(
  { db }: Deps,
  { accountId, connectionId }: OwnConnection,
  work: (tx: Transaction, connectionId: string) => Promise<void>,
): Promise<void> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireCallback(await findConnection(tx, accountId, connection_id));
    await work(tx, connection_id);
  });
}
