import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { type LiveDelegation, MAX_STATE_IDS, operatorCalls } from "../../operator_calls.ts";
import { type Route, route } from "../../route.ts";

type Row = {
  external_id: string;
  object_name: string | null;
  object_namespace: string | null;
  request_status: LiveDelegation["status"];
};

/**
 * `POST /internal/v1/delegations`: what a cluster's objects have in force, or waiting for a decision, 500 at
 * a time.
 */
export function liveDelegationsRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "internal_list_delegations",
    ...operatorCalls.listDelegations,
    summary: "List the declared delegations that are in force or wait for a decision",
    access: "operator",
    errors: [],
    async handle({ caller, body }) {
      const now = clock.now();
      const found = db("delegation_requests as r")
        .join("connections as c", "c.connection_id", "r.connection_id")
        .join("platforms as p", "p.platform_id", "c.platform_id")
        .leftJoin("certificates as t", "t.request_id", "r.request_id")
        .whereLike("r.external_id", `${caller.clusterId}.%`)
        .andWhere((live) =>
          live
            .where((waiting) => waiting.where("r.status", "pending").andWhere("r.expires_at", ">", now))
            .orWhere((granted) =>
              granted
                .where("t.status", "approved")
                .andWhere((end) => end.whereNull("t.expires_at").orWhere("t.expires_at", ">", now)),
            ),
        );
      if (body.after !== null) found.andWhere("r.external_id", ">", body.after);
      const rows = await found
        .orderBy("r.external_id")
        .limit(MAX_STATE_IDS)
        .select<Row[]>("r.external_id", "r.object_name", "p.object_namespace", "r.status as request_status");
      const delegations = rows.map((row) => ({
        external_id: row.external_id,
        namespace: row.object_namespace,
        name: row.object_name,
        status: row.request_status,
      }));
      const next = rows.length < MAX_STATE_IDS ? null : (rows.at(-1)?.external_id ?? null);
      return { body: { delegations, next } };
    },
  });
}
