import type { Knex } from "knex";
import { z } from "zod";
import { ApiError } from "../errors.ts";

/** Converts decimal digits to a number. Returns any other value unchanged, so that the schema rejects it. */
export function numberOf(text: unknown): unknown {
  return typeof text === "string" && /^[0-9]+$/.test(text) ? Number(text) : text;
}

/** Query parameters of a list: `limit` from 1 to 100 (default 25), and `cursor` from the previous page. */
export const pageQuery = z.object({
  limit: z.preprocess(numberOf, z.int().min(1).max(100)).default(25),
  cursor: z.string().max(500).optional().describe("next_cursor of the previous page"),
});

/** The parsed query parameters of a list. */
export type PageQuery = z.infer<typeof pageQuery>;

/** Returns the schema of a page of `item`s. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** A page of rows, and the cursor of the next page. The cursor is `null` on the last page. */
export type Page<Row> = { rows: Row[]; next_cursor: string | null };

/** The sort order of a list: by time, then by id, newest first by default. `isId` checks a cursor's id. */
export type PageOrder = {
  time: string | Knex.Raw;
  id: string;
  isId(text: string): boolean;
  earliestFirst?: true;
};

/** The position of a row in its list: the time in microseconds, as the database stores it, and the id. */
const place = z.tuple([z.iso.datetime({ precision: 6 }).refine(isDatabaseTime), z.string()]);
type Place = z.infer<typeof place>;

/**
 * Reads one page of a query in `order`. Rows that are added between two calls do not appear on later pages,
 * and no row appears on two pages. Throws `invalid_request` for a cursor that is not from this list.
 */
export async function readPage<Row>(
  query: Knex.QueryBuilder,
  order: PageOrder,
  page: PageQuery,
): Promise<Page<Row>> {
  const [direction, beyond] = order.earliestFirst ? ["asc", ">"] : ["desc", "<"];
  query
    .select(
      query.client.raw(
        `to_char(?? at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as page_time, ??::text as page_id`,
        [order.time, order.id],
      ),
    )
    .orderByRaw(`?? ${direction}, ?? ${direction}`, [order.time, order.id])
    .limit(page.limit + 1);
  if (page.cursor !== undefined) {
    const [time, id] = readCursor(page.cursor, order);
    query.whereRaw(`(??, ??) ${beyond} (?::timestamptz, ?)`, [order.time, order.id, time, id]);
  }
  const rows: (Row & { page_time: string; page_id: string })[] = await query;
  const last = rows.length > page.limit ? rows[page.limit - 1] : undefined;
  return {
    rows: rows.slice(0, page.limit),
    next_cursor: last === undefined ? null : writeCursor([last.page_time, last.page_id]),
  };
}

/** Returns whether PostgreSQL can represent the year, because PostgreSQL has no year 0. */
function isDatabaseTime(text: string): boolean {
  return !text.startsWith("0000");
}

function writeCursor(last: Place): string {
  return Buffer.from(JSON.stringify(last)).toString("base64url");
}

function readCursor(cursor: string, order: PageOrder): Place {
  const parsed = place.safeParse(parseJson(Buffer.from(cursor, "base64url").toString()));
  if (!parsed.success || !order.isId(parsed.data[1])) {
    throw new ApiError("invalid_request", "cursor: is not a cursor of this list");
  }
  return parsed.data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
