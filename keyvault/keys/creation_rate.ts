import { type Journal, recordRefusal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { available, type Database } from "../db/database.ts";
import { refuse } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { CreationOutcome, Metrics } from "../metrics.ts";
import type { Rate, Rates } from "../rates.ts";
import type { CreateKey } from "./create.ts";

/**
 * Do not share `rates` with signing: callers can invent tenants, whose buckets would evict the signing
 * buckets.
 */
export type CreationRateParts = {
  createKey: CreateKey;
  database: Database;
  journal: Pick<Journal, "record">;
  rates: Rates;
  /** Keys per second that one caller may create for one tenant. 0 means no limit. */
  rate: Rate;
  /** Keys per day that one caller may create for all tenants together. 0 means no limit. */
  perDay: number;
  log: Logger;
  keyCreations: Metrics["keyCreations"];
};

const DAY_SECONDS = 86_400;

/**
 * Limits key creation. If a caller creates keys for a tenant too often, refuses with `rate_limited` and
 * records the refusal. Requests for an existing key do not count. Each caller has its own bucket for each
 * tenant, because a caller can name any tenant. A second limit per day applies to all keys of one caller.
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
