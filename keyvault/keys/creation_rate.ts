import { type Journal, recordRefusal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { available, type Database } from "../db/database.ts";
import { refuse } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { CreationOutcome, Metrics } from "../metrics.ts";
import type { Rate, Rates } from "../rates.ts";
import type { CreateKey } from "./create.ts";

/**
 * What the bound needs. `rates` are for this alone: tenants that a caller invents push no bucket of a
 * signature's out of memory.
 */
export type CreationRateParts = {
  createKey: CreateKey;
  database: Database;
  journal: Pick<Journal, "record">;
  rates: Rates;
  /** Keys a second that one caller may have made for one tenant; 0 sets no bound. */
  rate: Rate;
  /** Keys a day that one caller may have made for all tenants together; 0 sets no bound. */
  perDay: number;
  log: Logger;
  keyCreations: Metrics["keyCreations"];
};

const DAY_SECONDS = 86_400;

/**
 * Key creation that refuses with `rate_limited`, on record, when a caller asks too often for a tenant's keys.
 * A name that a key was made under is answered without being counted. Naming a tenant is all that creation
 * takes, so each caller has a bucket of its own for each tenant: another certificate uses up nothing that the
 * first one needs, and no signature waits for it. What one caller has made for all tenants together, invented
 * ones included, is bounded by the day, for as long as the process runs.
 */
export function limitKeyCreation({
  createKey,
  database,
  journal,
  rates,
  rate,
  perDay,
  log,
  keyCreations,
}: CreationRateParts): CreateKey {
  function bound(
    { role, name }: Caller,
    tenant: string,
  ): { outcome: CreationOutcome; wait: number } | undefined {
    const caller = `${role}/${name}`;
    const forTenant = rates.take([{ name: `${caller} ${tenant}`, rate }]);
    if (forTenant !== undefined) return { outcome: "tenant_limited", wait: forTenant };
    const forAll = rates.take([{ name: caller, rate: perDay / DAY_SECONDS, burst: perDay }]);
    return forAll === undefined ? undefined : { outcome: "caller_limited", wait: forAll };
  }

  return async (caller, requestKey, request) => {
    const made = await available(() =>
      database("keys").where({ request_key: requestKey }).first<{ key_id: string } | undefined>("key_id"),
    );
    const { tenant, purpose } = request;
    const bounded = made === undefined ? bound(caller, tenant) : undefined;
    keyCreations.inc({ caller: caller.name, outcome: bounded?.outcome ?? "answered" });
    if (bounded === undefined) return createKey(caller, requestKey, request);
    if (bounded.outcome === "caller_limited") {
      log.error({
        event: "caller_creates_too_many_keys",
        caller: caller.name,
        role: caller.role,
        per_day: perDay,
      });
    }
    const refusal = { ...refuse("rate_limited"), retryAfterSeconds: Math.ceil(bounded.wait) };
    return recordRefusal(journal, { caller, purpose, statement: "key_create", detail: { tenant } }, refusal);
  };
}
