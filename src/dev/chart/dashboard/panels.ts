/** One line of a panel: PromQL without the choice of a namespace, and what the line is called. */
export type Query = { expr: string; legend: string };

/** A panel as this dashboard has them. `unit` is one of Grafana's. */
export type Panel = {
  title: string;
  unit: string;
  kind?: "stat";
  /** What a reader cannot see by the title. */
  description?: string;
  queries: Query[];
};

/** A row of panels. */
export type Row = { title: string; panels: Panel[] };

/** A rate over the time between two points of the panel, by labels. */
const rate = (series: string, by = ""): string =>
  `sum${by === "" ? "" : ` by (${by})`} (rate(${series}[$__rate_interval]))`;

/** Median and 99th of a hundred of a histogram, by labels. */
function quantiles(bucket: string, by = "", name = ""): Query[] {
  const grouped = by === "" ? "le" : `le, ${by}`;
  const prefix = name || (by === "" ? "" : `{{${by.split(", ").at(-1)}}} `);
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, ${rate(bucket, grouped)})`,
    legend: `${prefix}p${quantile * 100}`,
  }));
}

const one = (expr: string, legend = ""): Query[] => [{ expr, legend }];

/** What is read from the database is the same at every worker. */
const most = (series: string, by = "", legend = ""): Query[] =>
  one(`max${by === "" ? "" : ` by (${by})`} (${series})`, legend || `{{${by}}}`);

const KINDS = 'controller=~"platform|agent|delegation"';
const NAMES = 'name=~"platform|agent|delegation"';

const overview: Row = {
  title: "Overview",
  panels: [
    {
      title: "Ready",
      unit: "short",
      kind: "stat",
      queries: one("sum by (role) (deputize_ready)", "{{role}}"),
    },
    {
      title: "Vault cannot sign",
      unit: "short",
      kind: "stat",
      description: "1 under the reason. All 0: it signs.",
      queries: one("max by (reason) (keyvault_not_ready)", "{{reason}}"),
    },
    {
      title: "Leading operators",
      unit: "short",
      kind: "stat",
      queries: one("sum(leader_election_master_status)", "leaders"),
    },
    {
      title: "Certificates end in",
      unit: "s",
      kind: "stat",
      queries: [
        {
          expr: "min by (certificate) (keyvault_certificate_expiry_timestamp_seconds) - time()",
          legend: "vault {{certificate}}",
        },
        { expr: "min(deputize_vault_certificate_expiry_timestamp_seconds) - time()", legend: "vault client" },
      ],
    },
    {
      title: "Age of the vault's backup",
      unit: "s",
      kind: "stat",
      queries: one("time() - (max(keyvault_last_backup_timestamp_seconds) > 0)", "newest"),
    },
    {
      title: "Decisions",
      unit: "reqps",
      queries: one(rate("deputize_proof_decisions_total", "decision"), "{{decision}}"),
    },
    {
      title: "Calls answered 5xx",
      unit: "percentunit",
      queries: one(
        `${rate('deputize_http_request_seconds_count{status=~"5.."}')} / ${rate("deputize_http_request_seconds_count")}`,
        "5xx",
      ),
    },
  ],
};

const api: Row = {
  title: "API",
  panels: [
    {
      title: "Calls by operation",
      unit: "reqps",
      queries: one(rate("deputize_http_request_seconds_count", "route"), "{{route}}"),
    },
    {
      title: "Verify",
      unit: "s",
      queries: quantiles('deputize_http_request_seconds_bucket{route="verify_proof"}'),
    },
    {
      title: "Challenge and present",
      unit: "s",
      queries: quantiles(
        'deputize_http_request_seconds_bucket{route=~"create_challenge|present_proof"}',
        "route",
      ),
    },
    {
      title: "Errors by code",
      unit: "reqps",
      queries: one(`${rate("deputize_http_errors_total", "code")} > 0`, "{{code}}"),
    },
    {
      title: "Answers by status",
      unit: "reqps",
      queries: one(rate("deputize_http_request_seconds_count", "status"), "{{status}}"),
    },
    {
      title: "Mail to account owners",
      unit: "short",
      queries: [
        { expr: "max(deputize_notices_waiting)", legend: "waiting" },
        { expr: "max(deputize_notices_oldest_seconds)", legend: "oldest, seconds" },
        { expr: rate("deputize_notice_attempts_total", "outcome"), legend: "{{outcome}} a second" },
      ],
    },
  ],
};

const vault: Row = {
  title: "Key vault",
  panels: [
    {
      title: "Calls",
      unit: "reqps",
      queries: one(rate("keyvault_call_seconds_count", "call"), "{{call}}"),
    },
    {
      title: "Signing",
      unit: "s",
      queries: quantiles('keyvault_call_seconds_bucket{call=~".*/sign/.*"}', "call"),
    },
    {
      title: "Results but answered",
      unit: "reqps",
      queries: one(rate('keyvault_call_seconds_count{result!="answered"}', "result"), "{{result}}"),
    },
    {
      title: "Keys asked for",
      unit: "reqps",
      queries: one(rate("keyvault_key_creations_total", "caller, outcome"), "{{caller}} {{outcome}}"),
    },
  ],
};

const events: Row = {
  title: "Events and webhooks",
  panels: [
    { title: "Events that wait", unit: "short", queries: most("deputize_outbox_events", "", "outbox") },
    {
      title: "Oldest event",
      unit: "s",
      queries: [
        ...most("deputize_outbox_oldest_seconds", "", "outbox"),
        ...most("deputize_consumer_oldest_seconds", "consumer"),
        ...most("deputize_history_queue_oldest_seconds", "", "history"),
      ],
    },
    {
      title: "Batches and events",
      unit: "ops",
      queries: [
        { expr: rate("deputize_relay_batches_total", "result"), legend: "batches {{result}}" },
        {
          expr: rate("deputize_consumer_events_total", "consumer, outcome"),
          legend: "{{consumer}} {{outcome}}",
        },
      ],
    },
    {
      title: "From change to handling",
      unit: "s",
      queries: quantiles("deputize_consumer_latency_seconds_bucket", "consumer"),
    },
    {
      title: "Dead letters",
      unit: "short",
      queries: [
        ...most("deputize_dead_letters", "consumer"),
        ...most("deputize_dead_letters_uncarried", "", "not in Kafka"),
      ],
    },
    {
      title: "Deliveries and endpoints",
      unit: "short",
      queries: [
        ...most("deputize_webhook_deliveries", "state", "deliveries {{state}}"),
        ...most("deputize_webhook_endpoints", "state", "endpoints {{state}}"),
      ],
    },
    {
      title: "Requests to callback URLs",
      unit: "reqps",
      queries: one(rate("deputize_webhook_attempt_seconds_count", "outcome"), "{{outcome}}"),
    },
    {
      title: "Callback URLs answer in",
      unit: "s",
      queries: quantiles("deputize_webhook_attempt_seconds_bucket"),
    },
    {
      title: "States that cannot be read",
      unit: "short",
      description: "0: no worker reads it, so its panels and alerts are blind.",
      queries: most("deputize_measurement_up", "measurement"),
    },
    {
      title: "Ledger",
      unit: "short",
      queries: [
        ...most("deputize_ledger_differences", "kind", "differences: {{kind}}"),
        ...most("deputize_ledger_accounts", "", "accounts compared"),
      ],
    },
  ],
};

const kafka: Row = {
  title: "Kafka, with EVENTS=kafka",
  panels: [
    {
      title: "Records to read",
      unit: "short",
      queries: one(
        "sum by (topic, group) (max by (topic, group, partition) (deputize_kafka_consumer_lag))",
        "{{group}}",
      ),
    },
    {
      title: "Confirmed in",
      unit: "s",
      queries: quantiles('deputize_kafka_produce_seconds_bucket{result="written"}', "topic"),
    },
    {
      title: "Readers",
      unit: "short",
      queries: [
        ...most("deputize_kafka_reader_silent_seconds", "consumer", "{{consumer}} silent, seconds"),
        { expr: rate("deputize_kafka_pauses_total", "consumer"), legend: "{{consumer}} pauses a second" },
      ],
    },
    {
      title: "History that waits",
      unit: "short",
      queries: most("deputize_history_queue_rows", "", "rows"),
    },
  ],
};

const operator: Row = {
  title: "Operator",
  panels: [
    {
      title: "Objects",
      unit: "short",
      queries: one("max by (kind, reason) (deputize_operator_objects)", "{{kind}} {{reason}}"),
    },
    {
      title: "Visits",
      unit: "ops",
      queries: one(
        rate(`controller_runtime_reconcile_total{${KINDS}}`, "controller, result"),
        "{{controller}} {{result}}",
      ),
    },
    {
      title: "Length of a visit",
      unit: "s",
      queries: quantiles(`controller_runtime_reconcile_time_seconds_bucket{${KINDS}}`, "controller"),
    },
    {
      title: "Queue",
      unit: "short",
      queries: one(`sum by (name) (workqueue_depth{${NAMES}})`, "{{name}}"),
    },
    {
      title: "Waiting for a worker",
      unit: "s",
      queries: quantiles(`workqueue_queue_duration_seconds_bucket{${NAMES}}`, "name"),
    },
    {
      title: "Until what is urgent is done",
      unit: "s",
      queries: quantiles("deputize_operator_urgent_seconds_bucket", "what"),
    },
    {
      title: "Calls of the API",
      unit: "reqps",
      queries: one(rate("deputize_operator_api_call_seconds_count", "result"), "{{result}}"),
    },
    {
      title: "Calls of the API take",
      unit: "s",
      queries: quantiles("deputize_operator_api_call_seconds_bucket"),
    },
    {
      title: "Watches",
      unit: "s",
      queries: most("deputize_operator_watch_silence_seconds", "resource"),
    },
    {
      title: "Found otherwise",
      unit: "short",
      queries: [
        { expr: rate("deputize_operator_drift_total", "kind"), legend: "drift {{kind}} a second" },
        { expr: "max by (state) (deputize_operator_orphans)", legend: "orphans {{state}}" },
      ],
    },
    {
      title: "Failures",
      unit: "ops",
      queries: [
        {
          expr: rate(`controller_runtime_reconcile_errors_total{${KINDS}}`, "controller"),
          legend: "visits {{controller}}",
        },
        {
          expr: rate("deputize_operator_watch_failures_total", "resource"),
          legend: "watch {{resource}}",
        },
        { expr: rate("deputize_operator_lead_losses_total", "cause"), legend: "lead {{cause}}" },
      ],
    },
    {
      title: "Certificates that end within a week",
      unit: "short",
      queries: one("count(deputize_delegation_expiry_timestamp_seconds - time() < 7 * 86400)", "delegations"),
    },
  ],
};

/** Of the roles, by their readiness: other programs have metrics of these names too. */
const ours = (series: string) => `${series} and on (instance, job) deputize_ready`;

const processes: Row = {
  title: "Processes",
  panels: [
    {
      title: "Memory",
      unit: "bytes",
      queries: one(ours("process_resident_memory_bytes"), "{{instance}}"),
    },
    {
      title: "Processor time",
      unit: "percentunit",
      queries: one(ours("rate(process_cpu_seconds_total[$__rate_interval])"), "{{instance}}"),
    },
    {
      title: "Event loop, p99",
      unit: "s",
      queries: one(ours("nodejs_eventloop_lag_p99_seconds"), "{{instance}}"),
    },
  ],
};

/** The dashboard from top to bottom. */
export const rows: readonly Row[] = [overview, api, vault, events, kafka, operator, processes];
