import pg from "pg";

/**
 * SQLSTATE classes that say "not now" rather than "never": connection, invalid transaction state (read-only after a
 * failover among them), rollback by deadlock or serialization, resources, lock wait, operator intervention, system.
 */
const PASSING_CLASSES = new Set(["08", "25", "40", "53", "55", "57", "58", "XX"]);
const LOST_CONNECTION =
  /connection (terminated|ended|error)|not queryable|connection timeout|timeout exceeded/i;

/** Whether an error of a database call comes from the database being away or busy, so that trying again can help. */
export function isOutage(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return PASSING_CLASSES.has((error.code ?? "").slice(0, 2));
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isOutage);
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined && /^E[A-Z]+$/.test(code)) return true;
  return error.name === "KnexTimeoutError" || LOST_CONNECTION.test(error.message);
}
