import type { Journal } from "../audit/journal.ts";
import { recordRefusal } from "../audit/refusals.ts";
import type { Database } from "../db/connection.ts";
import { refuse } from "../errors.ts";
import type { Rate, Rates } from "../rates.ts";
import type { CreateKey } from "./create.ts";
import { available } from "./store.ts";

/** What the bound needs. `rates` are for this alone: tenants that a caller invents push no bucket of a signature's out of memory. */
export type CreationRateParts = {
  createKey: CreateKey;
  database: Database;
  journal: Pick<Journal, "record">;
  rates: Rates;
  /** Keys a second that one caller may have made for one tenant; 0 sets no bound. */
  rate: Rate;
};

/**
 * Key creation that refuses with `rate_limited`, on record, when a caller asks too often for a tenant's keys. A name that a key was made
 * under is answered without being counted. Naming a tenant is all that creation takes, so each caller has a bucket of its own for each
 * tenant: another certificate uses up nothing that the first one needs, and no signature waits for it.
 */
export function limitKeyCreation({
  createKey,
  database,
  journal,
  rates,
  rate,
}: CreationRateParts): CreateKey {
  return async (caller, requestKey, request) => {
    const made = await available(() =>
      database("keys").where({ request_key: requestKey }).first<{ key_id: string } | undefined>("key_id"),
    );
    if (made !== undefined) return createKey(caller, requestKey, request);
    const { tenant, purpose } = request;
    const wait = rates.take([{ name: `${caller.role}/${caller.name} ${tenant}`, rate }]);
    if (wait === undefined) return createKey(caller, requestKey, request);
    const refusal = { ...refuse("rate_limited"), retryAfterSeconds: Math.ceil(wait) };
    return recordRefusal(journal, { caller, purpose, statement: "key_create", detail: { tenant } }, refusal);
  };
}
