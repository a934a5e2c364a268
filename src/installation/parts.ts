import { readReconciliation } from "../accounts/ledger/reconcile.ts";
import { readWaiting } from "../accounts/notices/queue.ts";
import { readMailsUnderWay } from "../accounts/sign_in/sign_in_mails.ts";
import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { readSchemaState } from "../db/migrate.ts";
import { appliedMigrations } from "../db/schema_state.ts";
import { deliveryStates, eventStates } from "../events/event_states.ts";
import { readLagReport } from "../events/kafka/lag.ts";
import { MEASURE_SECONDS, type MeasuredState } from "../events/measurements.ts";
import type { Reader } from "../events/published.ts";
import { readWorkers } from "../events/shards.ts";
import { type VaultClient, VaultRefused, VaultUnavailable } from "../vault/client.ts";
import { certificateEnd } from "../vault/credentials.ts";
import { type Figure, figure, type Part } from "./installation.ts";

/** Returns the part `api`: the version of this process, and the schema version of its database. */
export function apiPart({ database, version }: { database: Database; version: string }): Part {
  return {
    name: "api",
    async read(at) {
      const { kind } = await readSchemaState(database);
      const newest = (await appliedMigrations(database)).at(-1) ?? null;
      const state = kind === "usable" ? "well" : "act";
      return [
        figure({ name: "api_version", value: version, unit: "text", at }),
        figure({ name: "database_schema", value: kind, unit: "text", at, state }),
        figure({ name: "newest_migration", value: newest, unit: "text", at }),
      ];
    },
  };
}

type VaultPartDeps = {
  vault: Pick<VaultClient, "health">;
  /** The certificate that identifies this process to the vault. */
  certificateFile: string;
};

/** Returns the part `vault`: whether the vault signs, or why not, and when the client certificate expires. */
export function vaultPart({ vault, certificateFile }: VaultPartDeps): Part {
  return {
    name: "vault",
    async read(at) {
      const [value, end] = [await vaultState(vault), await certificateEnd(certificateFile)];
      const state = value === "ready" ? "well" : "act";
      const ends = { name: "vault_certificate_end", unit: "time", at } as const;
      return [
        figure({ name: "vault_state", value, unit: "text", at, state }),
        ...(end === undefined ? [] : [figure({ ...ends, value: end.toISOString() })]),
      ];
    },
  };
}

/** Returns `ready`, the vault's own error code, or `unreachable`. */
async function vaultState(vault: VaultPartDeps["vault"]): Promise<string> {
  try {
    await vault.health();
    return "ready";
  } catch (error) {
    if (error instanceof VaultUnavailable || error instanceof VaultRefused) return error.code;
    throw error;
  }
}

/** A worker's report about Kafka is stale after this many missed measurements. */
const READINGS = 4;

/** Returns the part `workers`: those with a current lease, and whether one reached Kafka recently. */
export function workersPart({ database }: { database: Database }): Part {
  return {
    name: "workers",
    async read(at) {
      const { living, free } = await readWorkers(database);
      return [
        figure({ name: "workers", value: living, at, state: living > 0 ? "well" : "act" }),
        figure({ name: "outbox_shards_free", value: free, at, state: free > 0 ? "look" : "well" }),
        ...(await carrierFigures(database, at)),
      ];
    },
  };
}

async function carrierFigures(database: Database, at: Date): Promise<Figure[]> {
  const { way: kind = "embedded" } = (await database("event_way").first("way")) ?? {};
  const carrier = figure({ name: "event_way", value: kind, unit: "text", at });
  if (kind === "embedded") return [carrier];
  const report = await readLagReport(database);
  const isFresh = report !== undefined && at < addSeconds(report.at, READINGS * MEASURE_SECONDS);
  const state = isFresh ? "well" : "act";
  return [carrier, figure({ name: "kafka_answers", value: isFresh ? 1 : 0, at: report?.at ?? at, state })];
}

/** Returns the part `events`: the outbox, its consumers, dead letters, and history not yet in Kafka. */
export function eventsPart(deps: { database: Database; readers: readonly Reader[] }): Part {
  const { database, readers } = deps;
  const others = new Set(deliveryStates(database).map(({ name }) => name));
  const states = eventStates(database, readers).filter(({ name }) => !others.has(name));
  return { name: "events", read: (now) => readAll(states, now) };
}

/** Returns the part `webhooks`: deliveries that are not finished, and endpoints that receive nothing. */
export function webhooksPart({ database }: { database: Database }): Part {
  return { name: "webhooks", read: (now) => readAll(deliveryStates(database), now) };
}

/** Reads one state after another, so that a slow part uses only one connection. */
async function readAll(states: readonly MeasuredState[], at: Date): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const state of states) {
    for (const [name, samples] of Object.entries(await state.read(at))) {
      const unit = name.endsWith("_seconds") ? "seconds" : "count";
      for (const { value, labels = {} } of samples) {
        const [about = null] = Object.values(labels);
        figures.push(figure({ name, about, value: Math.round(value), unit, at }));
      }
    }
  }
  return figures;
}

/** Returns the part `mail`: notices that wait for the mail server, and sign-in codes that are being sent. */
export function mailPart({ database }: { database: Database }): Part {
  return {
    name: "mail",
    async read(at) {
      const { waiting, oldestSeconds } = await readWaiting(database, at);
      const { underWay, lastMailedAt } = await readMailsUnderWay(database, at);
      const [age, last] = [Math.round(oldestSeconds), lastMailedAt?.toISOString() ?? null];
      return [
        figure({ name: "deputize_notices_waiting", value: waiting, at }),
        figure({ name: "deputize_notices_oldest_seconds", value: age, unit: "seconds", at }),
        figure({ name: "sign_in_mails_under_way", value: underWay, at }),
        figure({ name: "sign_in_mails_last", value: last, unit: "time", at }),
      ];
    },
  };
}

const MOST_CLUSTERS = 100;

/** Returns the part `operators`: the operators that lead in their clusters, and since when. */
export function operatorsPart({ database }: { database: Database }): Part {
  return {
    name: "operators",
    async read(at) {
      const clusters = await database("operator_clusters")
        .orderBy([{ column: "seen_at", order: "desc" }, "cluster_id"])
        .limit(MOST_CLUSTERS);
      return [
        figure({ name: "operator_clusters", value: clusters.length, at }),
        ...clusters.map(({ cluster_id: about, seen_at }) =>
          figure({ name: "operator_leads_since", about, value: seen_at.toISOString(), unit: "time", at }),
        ),
      ];
    },
  };
}

/** Returns the part `ledger`: the result of the last reconciliation. Does not start one. */
export function ledgerPart({ database }: { database: Database }): Part {
  return {
    name: "ledger",
    async read(now) {
      const last = await readReconciliation(database);
      const made = { name: "ledger_reconciled", unit: "time", at: now } as const;
      if (last === undefined) return [figure({ ...made, value: null, state: "look" })];
      const { at, content } = last;
      const differences = Object.values(content.differences).reduce((sum, count) => sum + count, 0);
      const state = differences > 0 ? "act" : "well";
      return [
        figure({ ...made, value: at.toISOString() }),
        figure({ name: "deputize_ledger_differences", value: differences, at, state }),
        figure({ name: "deputize_ledger_accounts", value: content.accounts, at }),
      ];
    },
  };
}
