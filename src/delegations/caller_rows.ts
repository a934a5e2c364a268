import type { AccountCaller } from "../route.ts";

/**
 * What a caller may see of a table called `alias`: the account's rows, and an application only its
 * connection's.
 */
export function callerRows(
  { accountId, connectionId }: AccountCaller,
  alias: string,
): Record<string, string> {
  const own = { [`${alias}.account_id`]: accountId };
  return connectionId === null ? own : { ...own, [`${alias}.connection_id`]: connectionId };
}
