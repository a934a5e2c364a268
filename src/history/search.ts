import type { Knex } from "knex";
import { type Database, platformOf } from "../db/database.ts";
import { type Page, type PageOrder, type PageQuery, readPage } from "../input/pagination.ts";
import { searchText } from "../input/schemas.ts";
import { type NamedRow, withNames } from "./history_entry.ts";

/** Maximum number of the account's events that one call searches. */
export const SEARCHED = 10_000;
const MAX_WORDS = 8;
/** Maximum number of the account's platforms whose labels of custom scopes are searched, newest first. */
const PLATFORMS = 500;

/** Words to find in the history. */
export const searchWords = searchText
  .refine((text) => wordsOf(text).length <= MAX_WORDS, `has more than ${MAX_WORDS} words`)
  .optional()
  .describe(
    `Words in names, scope, label, result or reason, or ids. Each call searches ${SEARCHED} events: follow next_cursor`,
  );

type Place = { page_time: string; page_id: string };

type Search = {
  accountId: string;
  /** The account's events in the time range, newest first. */
  range: Knex.QueryBuilder;
  /** The same events, without those that do not match the filters. */
  found: Knex.QueryBuilder;
  order: PageOrder;
  search: string;
  page: PageQuery;
};

/**
 * Returns a page of the events that contain all words. It reads at most {@link SEARCHED} entries of the index
 * and, of the table, only the events to return. If older events remain, `next_cursor` continues the search.
 */
export async function searchHistory(
  db: Database,
  { accountId, range, found, order, search, page }: Search,
): Promise<Page<NamedRow>> {
  return db.transaction(async (tx) => {
    // Without statistics about an account, Postgres may prefer to read and sort all events of the account.
    await tx.raw("set local enable_sort = off");
    const { rows: ends, next_cursor: beyond } = await readPage<Place>(
      range.transacting(tx).offset(SEARCHED - 1),
      order,
      { limit: 1, cursor: page.cursor },
    );
    const [end] = beyond === null ? [] : ends;
    if (end !== undefined) {
      found.whereRaw("(e.occurred_at, e.event_id) >= (?::timestamptz, ?)", [end.page_time, end.page_id]);
    }
    const { rows: places, next_cursor } = await readPage<Place>(
      withWords(found.transacting(tx), { accountId, search }),
      order,
      page,
    );
    const events = await readEvents(db, accountId, places).transacting(tx);
    return { rows: events, next_cursor: next_cursor ?? beyond };
  });
}

function wordsOf(search: string): string[] {
  return search.toLowerCase().split(/\s+/);
}

/** Adds the condition that an event contains each word. Reads only columns of the index for filters. */
function withWords(
  found: Knex.QueryBuilder,
  { accountId, search }: Pick<Search, "accountId" | "search">,
): Knex.QueryBuilder {
  found
    .joinRaw("left join agents as a on a.account_id = e.account_id and a.agent_id = e.agent_id")
    .joinRaw(
      "left join connections as c on c.account_id = e.account_id and c.connection_id = e.connection_id",
    )
    .joinRaw(`left join platforms as p on p.platform_id = ${platformOf("c")}`)
    .joinRaw(
      `left join (
         select named.platform_id, scope.key as scope, string_agg(scope.value ->> 'label', ' ') as label
         from (select platform_id, scope_descriptions from platforms where account_id = ?
               order by created_at desc limit ${PLATFORMS}) as named,
           jsonb_each(named.scope_descriptions) as scope
         group by 1, 2) as l on l.platform_id = p.platform_id and l.scope = e.required_scope`,
      [accountId],
    )
    .joinRaw(
      `left join lateral (
         select x.verifier_platform_name, x.verifier_organization_name from audit_events as x
         where e.verifier_account_id is not null and x.account_id = e.account_id
           and x.occurred_at = e.occurred_at and x.event_id = e.event_id offset 0) as v on true`,
    )
    .joinRaw(
      `cross join lateral (
         select lower(concat_ws(' ', a.name, p.name, v.verifier_platform_name, v.verifier_organization_name,
           e.required_scope, l.label, e.decision_reason, replace(e.decision_reason, '_', ' '),
           case e.decision when 'allow' then 'allowed' when 'deny' then 'deny denied'
             when 'indeterminate' then 'indeterminate not decided' end)) as words offset 0) as text`,
    );
  for (const word of wordsOf(search)) {
    found.whereRaw(
      "(position(? in text.words) > 0 or ? in (e.event_id::text, lower(e.agent_id), lower(e.cert_id)))",
      [word, word],
    );
  }
  return found;
}

/** Selects the events at these places, in the same order. */
function readEvents(db: Database, accountId: string, places: readonly Place[]): Knex.QueryBuilder {
  // With `offset 0`, Postgres looks up each event by the primary key, in one partition.
  const events = db.from(
    db.raw(
      `unnest(?::timestamptz[], ?::uuid[]) with ordinality as k (occurred_at, event_id, place)
       cross join lateral (
         select * from audit_events as x
         where x.account_id = ? and x.occurred_at = k.occurred_at and x.event_id = k.event_id offset 0) as e`,
      [places.map(({ page_time }) => page_time), places.map(({ page_id }) => page_id), accountId],
    ),
  );
  return withNames(db, events).orderBy("k.place");
}
