import type { LiveDelegation } from "../../operator_calls.ts";
import type { ApiResult } from "../api/transport.ts";
import type { OperatorContext } from "../context.ts";
import { allObjects } from "../resources.ts";
import { type HeldRecord, type SweepRecord, sweep } from "./orphans.ts";
import { type Repetition, repeat } from "./repeat.ts";

/** Where the last sweep is recorded. */
export type SweepRecords = {
  read(): Promise<HeldRecord | undefined>;
  /** With `isTaken` the confirmation that was read is taken away: it counts once. */
  write(record: SweepRecord, options: { isTaken: boolean }): Promise<void>;
};

/**
 * When to sweep, in milliseconds, and how long an orphan is left alone; without a grace it is only listed.
 */
export type SweepOptions = {
  records: SweepRecords;
  graceMs: number | undefined;
  /** The namespaces whose objects are seen; all, when left out. */
  watched?: readonly string[] | undefined;
  firstMs?: number;
  everyMs?: number;
};

const FIRST_MS = 60_000;
const EVERY_MS = 10 * 60_000;
const REASON = "Its object is gone from the cluster";

type SweepWorld = Pick<OperatorContext, "resources" | "api" | "clock" | "externalIdOf" | "log" | "metrics">;

/**
 * While `isHeld` says that this process leads: looks now and then for delegations whose object is gone
 * without their having ended, as by force or a restore; lists them, and revokes them after a grace. Failures
 * are logged and tried again next time.
 */
export function startSweeper(
  context: SweepWorld,
  isHeld: () => boolean,
  { records, graceMs, watched, firstMs = FIRST_MS, everyMs = EVERY_MS }: SweepOptions,
): Repetition {
  const { resources, api, clock, log } = context;
  let isStopped = false;

  async function listLive(): Promise<ApiResult<LiveDelegation[]>> {
    const all: LiveDelegation[] = [];
    let after: string | null = null;
    do {
      const { value, failure }: Awaited<ReturnType<typeof api.listDelegations>> =
        await api.listDelegations(after);
      if (failure !== undefined) return { failure };
      all.push(...value.delegations);
      after = value.next;
    } while (after !== null);
    return { value: all };
  }

  async function once(): Promise<void> {
    const former = await records.read();
    const [leadership, live] = [await api.leadership(), await listLive()];
    const failure = leadership.failure ?? live.failure;
    if (leadership.value === undefined || live.value === undefined) {
      log.info({ failure }, "delegations without an object were not looked for");
      return;
    }
    const objects = allObjects(resources);
    const { record, revoke } = sweep({
      now: clock.now(),
      epoch: leadership.value.epoch,
      formerEpoch: leadership.value.former_epoch,
      former,
      live: live.value,
      watched,
      present: new Set(objects.filter(({ kind }) => kind === "Delegation").map(context.externalIdOf)),
      isEmpty: objects.length === 0,
      graceMs,
    });
    if (!isHeld() || isStopped) return;
    context.metrics.swept({ state: record.state, orphans: record.items.length + (record.more ?? 0) });
    await records.write(record, { isTaken: former?.confirmed !== undefined });
    if (record.state === "held") log.warn({ orphans: record.items.length }, record.why ?? "");
    for (const externalId of revoke) await end(externalId);
  }

  async function end(externalId: string): Promise<void> {
    if (!isHeld() || isStopped) return;
    const { failure } = await api.revokeDelegation(externalId, REASON);
    log.warn({ delegation: externalId, failure }, "a delegation without an object is revoked");
  }

  const sweeps = repeat(once, {
    firstMs,
    everyMs,
    onError: (error) => log.warn({ err: error }, "delegations without an object were not looked for"),
  });
  return {
    async stop() {
      isStopped = true;
      await sweeps.stop();
    },
  };
}
