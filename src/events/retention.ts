import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";

const DAY = 24 * 60 * 60;
/** Days. Longer than a bus may repeat an event. */
const INBOX_DAYS = 14;
/** Days that a published event is kept. Fewer than `INBOX_DAYS`, so that the inbox still knows the event. */
export const PUBLISHED_DAYS = 13;
/** Days that held deliveries, dead letters, and finished deliveries, recoveries and notices are kept. */
const HISTORY_DAYS = 30;
const BATCH = 1000;

/**
 * Deletes what has passed its retention time, in statements of at most 1,000 rows. The statements for former
 * secrets of callbacks, recoveries, secrets of events, dead letters and workers have no such limit. Returns
 * true if there is more. Skips a delivery that is resent or released at the same moment.
 *
 * Cancels a held delivery if it was neither created nor attempted within 30 days. The attempt counts, so that
 * a pause does not lose an old delivery that someone sends again.
 */
export async function removeOld(database: Database, now: Date): Promise<boolean> {
  const inboxEnd = addSeconds(now, -INBOX_DAYS * DAY);
  const publishedEnd = addSeconds(now, -PUBLISHED_DAYS * DAY);
  const historyEnd = addSeconds(now, -HISTORY_DAYS * DAY);
  const counts = await Promise.all([
    database.raw(
      `delete from inbox where (consumer, event_id) in
         (select consumer, event_id from inbox where handled_at < :inboxEnd limit ${BATCH})`,
      { inboxEnd },
    ),
    database.raw(
      `delete from published_events where event_id in
         (select event_id from published_events where published_at < :publishedEnd limit ${BATCH})`,
      { publishedEnd },
    ),
    database.raw(
      `delete from webhook_deliveries where delivery_id = any (array(
         select delivery_id from webhook_deliveries where settled_at < :historyEnd
         limit ${BATCH} for update skip locked))`,
      { historyEnd },
    ),
    database.raw(
      `update webhook_deliveries set state = 'cancelled', settled_at = :now, body = null, body_sealed = null
       where delivery_id = any (array(select delivery_id from webhook_deliveries d
         where state = 'held' and created_at < :historyEnd and not exists (select from webhook_attempts a
           where a.delivery_id = d.delivery_id and a.ended_at >= :historyEnd)
         limit ${BATCH} for update skip locked))`,
      { historyEnd, now },
    ),
    database.raw(
      `update connections set webhook_former_secret_sealed = null, webhook_former_until = null
       where webhook_former_until <= :now`,
      { now },
    ),
    database.raw(
      `delete from notices where event_id in
         (select event_id from notices where settled_at < :historyEnd limit ${BATCH})`,
      { historyEnd },
    ),
    database.raw(`delete from webhook_recoveries where finished_at < :historyEnd`, { historyEnd }),
    database.raw(`delete from event_secrets where created_at < :historyEnd`, { historyEnd }),
    database.raw(`delete from dead_letters where created_at < :historyEnd`, { historyEnd }),
    database.raw(`delete from relay_workers where alive_until < :historyEnd`, { historyEnd }),
  ]);
  return counts.some(({ rowCount }) => rowCount >= BATCH);
}
