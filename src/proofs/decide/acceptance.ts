import type { Database } from "../../db/database.ts";

/** Whether a connection's platform accepts another account's root for a scope, as of a moment. */
export type IsAccepted = (asked: {
  connectionId: string;
  humanId: string;
  scope: string;
  at: Date;
}) => Promise<boolean>;

/**
 * Looks an acceptance up before anything is waited for in the other account's name. It decides nothing: it
 * may be taken back before the deciding statement, which reads it again.
 */
export function createAcceptanceFinder(db: Database): IsAccepted {
  return async ({ connectionId, humanId, scope, at }) => {
    const row = await db("accepted_principals")
      .where({ connection_id: connectionId, human_id: humanId })
      .whereRaw("? = any (granted_scope)", [scope])
      .andWhere((end) => end.whereNull("accepted_until").orWhere("accepted_until", ">", at))
      .first("human_id");
    return row !== undefined;
  };
}
