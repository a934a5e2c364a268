import type { Knex } from "knex";
import { z } from "zod";
import { ApiError } from "./errors.ts";

/** Query parameters of every list: `limit` 1–100, 25 when left out; `cursor` from the page before. */
export const pageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(25),
  cursor: z.string().max(500).optional(),
});

/** What a list is asked for. */
export type PageQuery = z.infer<typeof pageQuery>;

/** The last row of a page: its time to the microsecond, as the database keeps it, and its id. */
type Place = { time: string; id: string };

/** A list's rows are read with this member: the place of each in its order. */
export type Placed = { page_time: string };

const place = z.tuple([z.iso.datetime({ precision: 6 }), z.string()]);

/** What a list is ordered by, newest first: a time and, among equals, an id; `isId` tells what can be one. */
export type PageOrder = { time: string; id: string; isId(text: string): boolean };

/**
 * Limits a query to one page of `order`, plus one row that tells whether another page follows.
 * Throws `invalid_request` for a cursor that no page of this list gave.
 */
export function onePage<Q extends Knex.QueryBuilder>(query: Q, order: PageOrder, page: PageQuery): Q {
  query
    .select(
      query.client.raw(`to_char(?? at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as page_time`, [
        order.time,
      ]),
    )
    .orderBy([
      { column: order.time, order: "desc" },
      { column: order.id, order: "desc" },
    ])
    .limit(page.limit + 1);
  if (page.cursor !== undefined) {
    const { time, id } = readCursor(page.cursor, order);
    query.whereRaw("(??, ??) < (?::timestamptz, ?)", [order.time, order.id, time, id]);
  }
  return query;
}

/** Cuts the extra row off and makes the cursor of the next page; `null` on the last one. */
export function cutPage<Row extends Placed>(
  rows: Row[],
  limit: number,
  idOf: (row: Row) => string,
): { rows: Row[]; next_cursor: string | null } {
  const last = rows[limit - 1];
  if (rows.length <= limit || last === undefined) return { rows, next_cursor: null };
  return { rows: rows.slice(0, limit), next_cursor: writeCursor({ time: last.page_time, id: idOf(last) }) };
}

function writeCursor({ time, id }: Place): string {
  return Buffer.from(JSON.stringify([time, id])).toString("base64url");
}

function readCursor(cursor: string, order: PageOrder): Place {
  const parsed = place.safeParse(parseJson(Buffer.from(cursor, "base64url").toString()));
  if (!parsed.success || !order.isId(parsed.data[1])) {
    throw new ApiError("invalid_request", "cursor: not one that this list gave");
  }
  return { time: parsed.data[0], id: parsed.data[1] };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
