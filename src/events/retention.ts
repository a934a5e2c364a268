import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";

const DAY = 24 * 60 * 60;
/** Days that the inbox remembers an event: longer than a bus can bring it again. */
const INBOX_DAYS = 14;
/** Days that a published event can be published again; less, so that the inbox still knows it. */
export const PUBLISHED_DAYS = 13;
/** Days that a finished delivery, a held one, a finished recovery or notice and a dead letter are kept. */
const HISTORY_DAYS = 30;
const BATCH = 1000;

/**
 * Removes what is past its time: inbox entries after 14 days, published events after 13, finished deliveries
 * with their attempts, finished recoveries and notices, dead letters and workers long gone after 30; a
 * delivery that is held and was neither made nor tried for 30 days is cancelled, so that an old one that is
 * sent again is not lost by a pause; a replaced webhook secret is erased when its grace is over. In
 * small statements; true when there is more. A delivery that is being sent again or released in the same
 * moment is left alone.
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
