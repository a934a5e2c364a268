import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { ClusterClient } from "../kubernetes/client.ts";
import { isStatus } from "../kubernetes/cluster_error.ts";
import { IDENTITY_NAME } from "../operator/cluster/cluster_identity.ts";
import { LEASE_NAME } from "../operator/operator_metrics.ts";
import { type Check, check, type Finding, failed, NotChecked, ok } from "./check.ts";
import { overPlainConnection } from "./plain_connection.ts";

/** A leader renews its Lease every 2 s, and loses it after 10 s. */
const WATCHED_MS = 7_000;
const LOOK_MS = 250;

const WORKERS = "select count(*)::int as living from relay_workers where alive_until > now()";

/** Returns the check that a worker runs, by the leases that workers renew in the database. */
export function workerCheck(): Check {
  return check("worker", ["DATABASE_URL"], async ({ DATABASE_URL }) => {
    const living = await countWorkers(DATABASE_URL);
    if (living > 0) return ok(living === 1 ? "1 worker runs" : `${living} workers run`);
    return failed(
      "no worker runs, so events and callbacks wait",
      "Start `deputize worker`, or look into its log: kubectl logs deploy/deputize-worker.",
    );
  });
}

async function countWorkers(url: string): Promise<number> {
  try {
    return await overPlainConnection(url, async (client) => {
      const { rows } = await client.query<{ living: number }>(WORKERS);
      return rows[0]?.living ?? 0;
    });
  } catch {
    throw new NotChecked("the database does not answer, or is not migrated");
  }
}

type Reads = {
  coordination: Pick<ClusterClient["coordination"], "readNamespacedLease">;
  core: Pick<ClusterClient["core"], "readNamespacedConfigMap">;
};

const leaseObject = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.object({ holderIdentity: z.string().optional() }).default({}),
});

/** Judges whether an operator leads: whether its Lease changes. Compares no clocks. */
export async function judgeLeader(
  { coordination }: Pick<Reads, "coordination">,
  namespace: string,
  watchedMs = WATCHED_MS,
): Promise<Finding> {
  const read = async () => {
    try {
      return leaseObject.parse(await coordination.readNamespacedLease({ name: LEASE_NAME, namespace }));
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
  };
  const start = performance.now();
  const first = await read();
  for (let now = first; performance.now() - start < watchedMs; now = await read()) {
    const { holderIdentity: holder = "" } = now?.spec ?? {};
    const isRenewed = now?.metadata.resourceVersion !== first?.metadata.resourceVersion;
    if (isRenewed && holder !== "") return ok(`${holder} leads`);
    await sleep(LOOK_MS);
  }
  return failed(
    `no operator leads: nobody renews the Lease ${namespace}/${LEASE_NAME}`,
    "Start the operator, or look into its log: kubectl logs deploy/deputize-operator.",
  );
}

const configMap = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** Compares the cluster id of the settings with the id that an operator recorded. */
export async function judgeClusterId(
  { core }: Pick<Reads, "core">,
  namespace: string,
  configured: string | undefined,
): Promise<Finding> {
  const place = `${namespace}/${IDENTITY_NAME}`;
  try {
    const found = await core.readNamespacedConfigMap({ name: IDENTITY_NAME, namespace });
    const recorded = configMap.parse(found).data.clusterID ?? "";
    if (recorded !== "" && (configured === undefined || configured === recorded)) {
      return ok(`the API knows this cluster as ${recorded}`);
    }
    return failed(
      `CLUSTER_ID is ${configured ?? "not set"}, but the ConfigMap ${place} records ${recorded || "none"}`,
      "Set CLUSTER_ID (operator.clusterId) to the recorded id, see docs/operator.md.",
    );
  } catch (error) {
    if (!isStatus(error, 404)) throw error;
    return failed(
      `no operator has recorded the cluster id in the ConfigMap ${place}`,
      "The operator records it when the API has accepted it: look into the operator's log.",
    );
  }
}
