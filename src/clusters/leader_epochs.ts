import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { Logger } from "../log.ts";
import { operatorCalls } from "../operator_calls.ts";
import { type OperatorCaller, type Route, route } from "../route.ts";

type Deps = { db: Database; clock: Clock };

/** Returns the route `POST /internal/v1/leadership`. */
export function claimLeadershipRoute(deps: Deps & { log: Logger }): Route {
  return route({
    id: "internal_claim_leadership",
    ...operatorCalls.claimLeadership,
    summary: "Give the operator's new leader its epoch",
    access: "operator",
    epoch: "none",
    errors: [],
    async handle({ caller, body }) {
      const { epoch, formerEpoch } = await followLeader(deps, caller);
      deps.log.info({ cluster: caller.clusterId, holder: body.holder, epoch }, "an operator leads");
      return { body: { epoch, former_epoch: formerEpoch } };
    },
  });
}

/**
 * Assigns an epoch to a new leader of a cluster's operator, and returns it. The epoch is greater than all
 * earlier epochs, even if the database was restored from a backup meanwhile. From then on, the API refuses
 * calls with any other epoch.
 */
export async function claimLeadership({ db, clock }: Deps, caller: OperatorCaller): Promise<number> {
  return (await followLeader({ db, clock }, caller)).epoch;
}

/** Like `claimLeadership`, but also returns the former leader's epoch, or `null` for the first leader. */
export async function followLeader(
  { db, clock }: Deps,
  { clusterId }: OperatorCaller,
): Promise<{ epoch: number; formerEpoch: number | null }> {
  const now = clock.now();
  return db.transaction(async (tx) => {
    const former = await tx("operator_clusters").where("cluster_id", clusterId).forUpdate().first("epoch");
    const { rows } = await tx.raw<{ rows: { epoch: number }[] }>(
      `insert into operator_clusters as known (cluster_id, epoch, seen_at) values (?, ?, ?)
       on conflict (cluster_id) do update
       set epoch = greatest(known.epoch + 1, excluded.epoch), seen_at = excluded.seen_at
       returning epoch`,
      [clusterId, now.getTime(), now],
    );
    const [row] = rows;
    if (row === undefined) throw new Error("The epoch was not written");
    return { epoch: row.epoch, formerEpoch: former?.epoch ?? null };
  });
}

/** Returns a function that checks whether an epoch is that of its cluster's newest leader. */
export function createIsLeader({ db }: Pick<Deps, "db">) {
  return async ({ clusterId }: OperatorCaller, epoch: number): Promise<boolean> => {
    const known = await db("operator_clusters").where("cluster_id", clusterId).first("epoch");
    return known?.epoch === epoch;
  };
}
