import { Counter, Gauge, Registry } from "prom-client";

/**
 * What became of a request for a key: one was made or given again, or refused by a bound for its tenant, or
 * for all that its caller asks for.
 */
export type CreationOutcome = "answered" | "tenant_limited" | "caller_limited";

/**
 * What one vault counts. Labels are names of certificates and kinds of things: no tenant, key or address is a
 * label.
 */
export type Metrics = {
  registry: Registry;
  keyCreations: Counter<"caller" | "outcome">;
  lastBackup: Gauge;
};

/** A registry of this vault's own. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  return {
    registry,
    keyCreations: new Counter({
      name: "keyvault_key_creations_total",
      help: "Requests for keys by the caller's name and what became of them; caller_limited is to be alarmed about",
      labelNames: ["caller", "outcome"],
      registers: [registry],
    }),
    lastBackup: new Gauge({
      name: "keyvault_last_backup_timestamp_seconds",
      help: "When the newest backup was made that its caller took to its end, in Unix seconds; 0 when none is known",
      registers: [registry],
    }),
  };
}
