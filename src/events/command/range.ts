import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { historyEventType } from "../../history/history_entry.ts";
import { UsageError } from "../../input/exit_status.ts";
import { accountEventKinds, eventKinds } from "../kinds.ts";
import { EVENT_COLUMNS } from "../published.ts";
import { PUBLISHED_DAYS } from "../retention.ts";
import { EventsError, readTime, readUuid } from "./report.ts";

/** Options of `deputize events replay`. */
export type ReplayRangeOptions = {
  from: string;
  to: string;
  topic?: string;
  connection?: string;
  account?: string;
  type?: string;
  dryRun?: boolean;
  json?: boolean;
};

/** The events to replay: those that happened at or after `from` and before `to`. */
export type Range = {
  topic: "lifecycle" | "audit";
  from: Date;
  to: Date;
  connectionId: string | undefined;
  accountId: string | undefined;
  type: string | undefined;
};

const DAY = 24 * 60 * 60;

const types: Record<Range["topic"], readonly string[]> = {
  lifecycle: [...Object.keys(eventKinds), ...Object.keys(accountEventKinds)],
  audit: historyEventType.options,
};

/** Parses and checks the options. Throws `UsageError`. */
export function readRange({ topic = "lifecycle", type, ...options }: ReplayRangeOptions): Range {
  if (topic !== "lifecycle" && topic !== "audit") {
    throw new UsageError("--topic is neither lifecycle nor audit");
  }
  const [from, to] = [readTime("--from", options.from), readTime("--to", options.to)];
  if (from >= to) throw new UsageError("--to is not after --from");
  if (type !== undefined && !types[topic].includes(type)) {
    throw new UsageError(`--type is none of ${types[topic].join(", ")}`);
  }
  const { connection, account } = options;
  const connectionId = connection === undefined ? undefined : readUuid(connection, "a connection's id");
  const accountId = account === undefined ? undefined : readUuid(account, "an account's id");
  return { topic, from, to, connectionId, accountId, type };
}

/** Returns the deleted part of a range, or `null`. Throws `EventsError` if the whole range was deleted. */
export function notKept({ topic, from, to }: Range, now: Date): { from: Date; to: Date } | null {
  const keptSince = addSeconds(now, -PUBLISHED_DAYS * DAY);
  if (topic === "audit" || from >= keptSince) return null;
  if (to > keptSince) return { from, to: keptSince };
  throw new EventsError(
    `Events are kept for ${PUBLISHED_DAYS} days, since ${keptSince.toISOString()}: no event of this range can be replayed`,
  );
}

/** Positions in the replay list, excluding `after` and including `until`. */
type Places = { after: number; until: number };
type Written = { rowCount: number };

/** `bring` puts events into the topic's queue. `waiting` counts the events that are still there. */
type Queue = {
  list(db: Database, range: Range): Promise<Written>;
  bring(tx: Transaction, places: Places): Promise<Written>;
  waiting(db: Database, places: Places): Promise<number>;
};

const PLACES = "l.place > :after and l.place <= :until";

/**
 * The queue of each topic. `replay_list` is a temporary table. It orders events by time, but never before an
 * earlier event of the same connection or account.
 */
export const queues: Record<Range["topic"], Queue> = {
  lifecycle: {
    // An event is published later than it happens. The hour allows for clocks that differ.
    list: (db, range) =>
      db.raw(
        `insert into replay_list (place, event_id, happened_at)
         select row_number() over (order by reached, aggregateid, aggregate_seq), event_id, created_at
         from (select event_id, created_at, aggregateid, aggregate_seq,
                      max(created_at) over (partition by aggregateid order by aggregate_seq) as reached
               from published_events
               where published_at >= :from::timestamptz - interval '1 hour' and created_at >= :from and created_at < :to
                 and (:type::text is null or type = :type)
                 and (:connectionId::text is null or aggregatetype <> 'account' and aggregateid = :connectionId)
                 and (:accountId::uuid is null or aggregateid = :accountId::text and aggregatetype = 'account'
                      or aggregateid in (select connection_id::text from connections where account_id = :accountId))
              ) found`,
        bindings(range),
      ),
    bring: (tx, places) =>
      tx.raw(
        `insert into outbox (${EVENT_COLUMNS})
         select ${EVENT_COLUMNS} from replay_list l join published_events p using (event_id)
         where ${PLACES} order by l.place on conflict do nothing`,
        places,
      ),
    waiting: (db, places) => count(db, "outbox o where o.event_id = l.event_id", places),
  },
  audit: {
    list: (db, range) =>
      db.raw(
        `insert into replay_list (place, event_id, account_id, happened_at)
         select row_number() over (order by occurred_at, event_id, account_id), event_id, account_id, occurred_at
         from audit_events
         where occurred_at >= :from and occurred_at < :to
           and (:type::text is null or event_type = :type)
           and (:connectionId::uuid is null or connection_id = :connectionId)
           and (:accountId::uuid is null or account_id = :accountId)`,
        bindings(range),
      ),
    bring: (tx, places) =>
      tx.raw(
        `insert into history_queue (account_id, occurred_at, event_id)
         select account_id, happened_at, event_id from replay_list l
         where ${PLACES} order by l.place on conflict do nothing`,
        places,
      ),
    waiting: (db, places) =>
      count(
        db,
        `history_queue q where q.account_id = l.account_id and q.occurred_at = l.happened_at
           and q.event_id = l.event_id`,
        places,
      ),
  },
};

function bindings({ from, to, ...filters }: Range): Record<string, Date | string | null> {
  const { type = null, connectionId = null, accountId = null } = filters;
  return { from, to, type, connectionId, accountId };
}

async function count(db: Database, inQueue: string, places: Places): Promise<number> {
  const { rows } = await db.raw(
    `select count(*) as waiting from replay_list l where ${PLACES} and exists (select from ${inQueue})`,
    places,
  );
  return rows[0].waiting;
}
