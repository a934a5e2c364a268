import type { Caller } from "../audit/record.ts";
import type { ComparedClock } from "../clock.ts";
import { available, type Database } from "../db/database.ts";
import { isRefusal, reasonOf, refuse, VaultError } from "../errors.ts";
import { changeKey, changeTenant, type TenantChangeParts } from "../keys/change.ts";
import type { Logger } from "../log.ts";

/**
 * Erases the seeds and data keys whose erasure date has passed, with a record for each. Erases nothing while
 * the clocks disagree. Safe to repeat.
 */
type EraseDue = () => Promise<{ keys: number; tenants: number }>;

const LOCAL: Caller = { role: "local", name: "waiting-period" };
const BATCH = 500;
const NOTHING = Buffer.alloc(0);

/** Creates the operation that erases due seeds and data keys. */
export function createErasing(
  parts: TenantChangeParts & { clock: ComparedClock; database: Database },
): EraseDue {
  const { clock, database } = parts;
  async function due(table: "keys" | "tenants", name: "key_id" | "tenant", after: string): Promise<string[]> {
    const now = clock.agreed();
    if (now === undefined) return [];
    return available(() =>
      database(table)
        .where({ state: "destroying" })
        .where("destroy_at", "<=", now)
        .where(name, ">", after)
        .orderBy(name)
        .limit(BATCH)
        .pluck<string[]>(name),
    );
  }
  // Asks the clock again for each row, because the clocks may begin to disagree during a long run.
  function isDue({ state, destroy_at }: { state: string; destroy_at: Date | null }): boolean {
    const now = clock.agreed();
    return now !== undefined && state === "destroying" && destroy_at !== null && destroy_at <= now;
  }

  const cancelled = refuse("policy_violation", "The destruction was cancelled");

  async function eraseTenant(tenant: string): Promise<boolean> {
    const erased = await changeTenant(parts, tenant, { caller: LOCAL, statement: "tenant_erase" }, (row) =>
      isDue(row) ? { row: { ...row, state: "destroyed", wrapped_data_key: NOTHING } } : cancelled,
    );
    return !isRefusal(erased);
  }

  async function eraseKey(keyId: string): Promise<boolean> {
    const about = { caller: LOCAL, statement: "key_erase" } as const;
    const erased = await changeKey(parts, { keyId, tenant: undefined }, about, (row) =>
      isDue(row) ? { row: { ...row, state: "destroyed", wrapped_seeds: NOTHING } } : cancelled,
    );
    return !isRefusal(erased);
  }

  return async () => {
    const tenants = await eraseAll((after) => due("tenants", "tenant", after), eraseTenant);
    const keys = await eraseAll((after) => due("keys", "key_id", after), eraseKey);
    return { keys, tenants };
  };
}

/** Erases the objects with these names, except damaged ones. Returns how many were erased. */
async function eraseAll(
  pageAfter: (name: string) => Promise<string[]>,
  erase: (name: string) => Promise<boolean>,
): Promise<number> {
  let erased = 0;
  for (let page = await pageAfter(""); page.length > 0; page = await pageAfter(page.at(-1) ?? "")) {
    for (const name of page) if (await unlessDamaged(() => erase(name))) erased += 1;
  }
  return erased;
}

/** Returns false for an altered row, which is not erased and must not prevent the erasure of other rows. */
async function unlessDamaged(erase: () => Promise<boolean>): Promise<boolean> {
  try {
    return await erase();
  } catch (error) {
    if (error instanceof VaultError && error.code === "key_damaged") return false;
    throw error;
  }
}

const INTERVAL_MS = 600_000;

/**
 * Erases due seeds and data keys now, and then every ten minutes until `stop`. Logs a failure and continues.
 */
export function keepErasing(erase: EraseDue, log: Logger): { stop(): Promise<void> } {
  let running = run();
  const timer = setInterval(() => {
    running = running.then(run);
  }, INTERVAL_MS);
  timer.unref();

  async function run(): Promise<void> {
    try {
      const { keys, tenants } = await erase();
      if (keys + tenants > 0) log.info({ event: "erased", keys, tenants });
    } catch (error) {
      log.error({ event: "erasing_failed", reason: reasonOf(error) });
    }
  }

  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
