import type { Database } from "../../db/database.ts";

/** Rows that are counted at most: more would cost time and say no more. */
const MOST = 100_000;
/** The same for deliveries, which lie apart: of a million, two states took 0.1 s; with 100,000, 0.5 s. */
const MOST_DELIVERIES = 20_000;
const QUERY_MS = 5_000;

/** What the help of a gauge ends with that shows the state of all. */
export const OF_ALL = "the same at every worker";

/** What the help of a count says besides what is counted. */
export const UP_TO = `at most ${MOST}; ${OF_ALL}`;

/** The same for deliveries. */
export const DELIVERIES_UP_TO = `at most ${MOST_DELIVERIES}; ${OF_ALL}`;

/** `count(*)` of rows in SQL, which ends at 100,000. */
export function counted(rows: string, most = MOST): string {
  return `(select count(*) from (select from ${rows} limit ${most}) counted)`;
}

/** The same for deliveries in a state; it ends at 20,000. */
export function countedDeliveries(state: string): string {
  return counted(`webhook_deliveries where state = '${state}'`, MOST_DELIVERIES);
}

/** Runs a query that is given up after 5 s, at the server too. */
export async function rowsOf<Row>(database: Database, query: string, bindings: object = {}): Promise<Row[]> {
  const { rows } = await database.raw(query, { ...bindings }).timeout(QUERY_MS, { cancel: true });
  return rows;
}

/** Runs a query whose answer is one row. */
export async function rowOf<Row>(database: Database, query: string): Promise<Row> {
  const [row] = await rowsOf<Row>(database, query);
  if (row === undefined) throw new Error("The query gave no row");
  return row;
}

/** Seconds from a moment until now, 0 for none and for one that is still to come. */
export function secondsSince(moment: Date | null, now: Date): number {
  return moment === null ? 0 : Math.max(0, (now.getTime() - moment.getTime()) / 1000);
}
