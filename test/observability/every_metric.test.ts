import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { knownMetrics } from "../support/known_metrics.ts";
import { metricEvents } from "./metric_events.ts";

/** For each other fast test file, the metrics whose events it causes. */
const elsewhere: Record<string, string[]> = {
  "events/event_metrics.test.ts": [
    "deputize_consumer_events_total",
    "deputize_consumer_latency_seconds",
    "deputize_kafka_produce_seconds",
    "deputize_relay_batches_total",
  ],
  "events/event_states.test.ts": [
    "deputize_consumer_oldest_seconds",
    "deputize_dead_letters",
    "deputize_dead_letters_uncarried",
    "deputize_history_queue_oldest_seconds",
    "deputize_history_queue_rows",
    "deputize_outbox_events",
    "deputize_outbox_oldest_seconds",
    "deputize_webhook_deliveries",
    "deputize_webhook_endpoints",
  ],
  "events/kafka/consumer.test.ts": ["deputize_kafka_pauses_total", "deputize_kafka_reader_silent_seconds"],
  "events/kafka/lag.test.ts": ["deputize_kafka_consumer_lag"],
  "events/measurements.test.ts": ["deputize_measurement_up"],
  "concurrency/followed_clock.test.ts": ["deputize_clock_offset_seconds", "keyvault_clock_offset_seconds"],
  "keyvault/creation_rate.test.ts": ["keyvault_key_creations_total"],
  "keyvault/http/answers.test.ts": ["keyvault_call_seconds"],
  "keyvault/readiness.test.ts": [
    "keyvault_certificate_expiry_timestamp_seconds",
    "keyvault_not_ready",
    "keyvault_pin_state",
  ],
  "keyvault/running.test.ts": ["keyvault_last_backup_timestamp_seconds", "keyvault_token_logins_total"],
  "operator/cluster/reflector.test.ts": [
    "deputize_operator_lists_total",
    "deputize_operator_synced",
    "deputize_operator_watch_failures_total",
    "deputize_operator_watch_silence_seconds",
  ],
  "operator/cluster/running.test.ts": ["rest_client_requests_total"],
  "operator/leader_terms.test.ts": ["deputize_operator_lead_losses_total"],
  "operator/operator_metrics.test.ts": [
    "deputize_delegation_expiry_timestamp_seconds",
    "deputize_operator_api_call_seconds",
    "deputize_operator_objects",
    "deputize_operator_urgent_seconds",
    "leader_election_master_status",
  ],
  "operator/poll.test.ts": ["deputize_operator_drift_total"],
  "operator/queue_metrics.test.ts": [
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_reconcile_total",
    "deputize_operator_visits_delayed_total",
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds",
  ],
  "operator/sweeper.test.ts": ["deputize_operator_orphans"],
  "rates/action_limits.test.ts": ["deputize_actions_limited_total"],
  "vault/certificate_end.test.ts": ["deputize_vault_certificate_expiry_timestamp_seconds"],
  "webhooks/dispatcher.test.ts": ["deputize_webhook_attempt_seconds"],
};

describe("the metric", () => {
  test.each(Object.entries(metricEvents))("%s follows its events", (_, causeAndRead) => causeAndRead());
});

test.each(Object.entries(elsewhere))("%s reads its metrics", async (file, names) => {
  const text = await readFile(join(import.meta.dirname, "..", file), "utf8");
  expect(names.filter((name) => !new RegExp(`${name}(_count|_sum|_bucket)?(?![a-z_])`).test(text))).toEqual(
    [],
  );
});

test("each documented metric has one row in these tables", async () => {
  const pages = ["observability.md", "events.md", "operator.md"].map((page) =>
    readFile(join(import.meta.dirname, "../../docs", page), "utf8"),
  );
  const known = new Set(knownMetrics().map(({ name }) => name));
  const rows = (await Promise.all(pages)).flatMap((page) => [...page.matchAll(/^\| `([a-z_]+)` \|/gm)]);
  const documented = rows.map(([, name = ""]) => name).filter((name) => known.has(name));
  const tested = [...Object.keys(metricEvents), ...Object.values(elsewhere).flat()];
  expect(tested.toSorted()).toEqual(documented.toSorted());
});
