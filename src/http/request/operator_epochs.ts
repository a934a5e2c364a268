import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { OperatorCaller } from "../../route.ts";

/** By how much an epoch may be ahead of the last one seen, or of 0 for a new cluster. */
export const EPOCH_STEP = 1_000;

/**
 * Admits an operator unless a newer leader of its cluster was admitted before, on any replica. An epoch that
 * is new is committed before its first call is served, so from then on an older leader is refused. Throws
 * `invalid_request` for one that is too far ahead: an epoch that no leader can reach would lock the cluster's
 * operator out permanently.
 */
export function createAdmitOperator({ db, clock }: { db: Database; clock: Clock }) {
  return async ({ clusterId, epoch }: OperatorCaller): Promise<boolean> => {
    const seen = await db("operator_clusters").where("cluster_id", clusterId).first("epoch");
    if (seen !== undefined && seen.epoch >= epoch) return seen.epoch === epoch;
    if (epoch > (seen?.epoch ?? 0) + EPOCH_STEP) {
      throw new ApiError(
        "invalid_request",
        `x-deputize-epoch: is more than ${EPOCH_STEP} ahead of the last one seen`,
      );
    }
    const { rowCount } = await db.raw(
      `insert into operator_clusters as known (cluster_id, epoch, seen_at) values (?, ?, ?)
       on conflict (cluster_id) do update set epoch = excluded.epoch, seen_at = excluded.seen_at
       where known.epoch <= excluded.epoch`,
      [clusterId, epoch, clock.now()],
    );
    return rowCount === 1;
  };
}
