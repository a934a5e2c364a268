import type { Pool } from "pg";
import { openPool } from "../../src/db/database.ts";
import { createDecisionQueue } from "../../src/proofs/admission/admission.ts";
import { PATIENT_LOCK_MS, QUICK_LOCK_MS } from "../../src/proofs/admission/batch.ts";
import type { FairQueue } from "../../src/proofs/admission/fair_queue.ts";
import { proofRoutes } from "../../src/proofs/routes.ts";
import { type PlatformApi, type PlatformOptions, startPlatformApi } from "./platform_world.ts";

/**
 * `refusedPerMinute` limits refused proofs per connection. Default: 100,000. `queue` defaults to
 * production's.
 */
export type ReplicaOptions = PlatformOptions & { refusedPerMinute?: number; queue?: FairQueue };

/** Starts an API with all operations and separate connection pools, like a production process. */
export async function startReplica(options: ReplicaOptions = {}): Promise<PlatformApi> {
  let pools: Pool[] = [];
  const api = await startPlatformApi({
    ...options,
    routes: (parts) => {
      const open = (name: string, lockMs: number, max: number) =>
        openPool({ url: parts.databaseUrl, name, lockMs, max, onError: () => {} });
      const decisions = open("decisions", QUICK_LOCK_MS, 4);
      const [patient, rated] = [open("patient", PATIENT_LOCK_MS, 2), open("rates", PATIENT_LOCK_MS, 2)];
      pools = [decisions, patient, rated];
      const proofs = proofRoutes({
        ...parts,
        decisions,
        patient,
        rated,
        queue: options.queue ?? createDecisionQueue(parts.metrics),
        refusedPerMinute: options.refusedPerMinute ?? 100_000,
        takePresent: (caller) => parts.keyRates.take("present", caller),
        findApiKey: parts.find,
        baseUrl: "https://deputize.example/",
        word: options.config?.SERVICE_WORD ?? "service",
      });
      return [...proofs, ...(options.routes?.(parts) ?? [])];
    },
  });
  return {
    ...api,
    async stop() {
      await Promise.all(pools.map((pool) => pool.end()));
      await api.stop();
    },
  };
}

export async function startReplicas(options: ReplicaOptions = {}): Promise<[PlatformApi, PlatformApi]> {
  const first = await startReplica(options);
  return [first, await startReplica({ ...options, shares: first })];
}
