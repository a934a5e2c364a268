import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import { idText } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { type NamedEntry, type NamedRow, namedEntry, showNamedRow, withNames } from "./named_entry.ts";

/** What it answers. */
export type EventAnswer = NamedEntry;

/** `GET /v1/service/audit/personal/{event_id}`: one event of the account's history. */
export function eventRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_audit_event",
    method: "GET",
    path: "/v1/service/audit/personal/{event_id}",
    summary: "Read one event of the account's history",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ event_id: idText }),
    answer: { status: 200, schema: namedEntry, description: "The event" },
    errors: ["not_found"],
    async handle({ caller, params: { event_id } }) {
      // The id carries the moment of its event: the history is entered at one place.
      const occurredAt = isUuid(event_id) ? timeOfId(event_id) : undefined;
      if (occurredAt === undefined) throw new ApiError("not_found");
      const found = db("audit_events as e").where({
        "e.account_id": caller.accountId,
        "e.occurred_at": occurredAt,
        "e.event_id": event_id,
      });
      const row: NamedRow | undefined = await withNames(db, found).first();
      if (row === undefined) throw new ApiError("not_found");
      return { body: showNamedRow(row) };
    },
  });
}
