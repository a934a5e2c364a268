import { quantiles, type Row, rate, singleLine } from "./queries.ts";

/** The most important panels. */
export const overview: Row = {
  title: "Overview",
  panels: [
    {
      title: "Ready",
      unit: "short",
      kind: "stat",
      queries: singleLine("sum by (role) (deputize_ready)", "{{role}}"),
    },
    {
      title: "Vault cannot sign",
      unit: "short",
      kind: "stat",
      description: "1 marks the reason. If all are 0, the vault can sign.",
      queries: singleLine("max by (reason) (keyvault_not_ready)", "{{reason}}"),
    },
    {
      title: "Leading operators",
      unit: "short",
      kind: "stat",
      queries: singleLine("sum(leader_election_master_status)", "leaders"),
    },
    {
      title: "Certificates expire in",
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
      queries: singleLine("time() - (max(keyvault_last_backup_timestamp_seconds) > 0)", "newest"),
    },
    {
      title: "Decisions",
      unit: "reqps",
      queries: singleLine(rate("deputize_proof_decisions_total", "decision"), "{{decision}}"),
    },
    {
      title: "Calls answered with 5xx",
      unit: "percentunit",
      queries: singleLine(
        `${rate('deputize_http_request_seconds_count{status=~"5.."}')} / ${rate("deputize_http_request_seconds_count")}`,
        "5xx",
      ),
    },
  ],
};

/** Panels about the API's calls, latencies, errors and emails. */
export const api: Row = {
  title: "API",
  panels: [
    {
      title: "Calls by operation",
      unit: "reqps",
      queries: singleLine(rate("deputize_http_request_seconds_count", "route"), "{{route}}"),
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
      title: "Running and waiting decisions",
      unit: "short",
      queries: [
        { expr: "sum(deputize_decisions_running)", legend: "running" },
        { expr: "sum(deputize_decisions_waiting)", legend: "waiting" },
        { expr: rate("deputize_decisions_refused_total", "cause"), legend: "refused a second, {{cause}}" },
      ],
    },
    {
      title: "Errors by code",
      unit: "reqps",
      queries: singleLine(`${rate("deputize_http_errors_total", "code")} > 0`, "{{code}}"),
    },
    {
      title: "Responses by status",
      unit: "reqps",
      queries: singleLine(rate("deputize_http_request_seconds_count", "status"), "{{status}}"),
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

/** Panels about calls to the key vault. */
export const vault: Row = {
  title: "Key vault",
  panels: [
    {
      title: "Calls",
      unit: "reqps",
      queries: singleLine(rate("keyvault_call_seconds_count", "call"), "{{call}}"),
    },
    {
      title: "Signing",
      unit: "s",
      queries: quantiles('keyvault_call_seconds_bucket{call=~".*/sign/.*"}', "call"),
    },
    {
      title: "Failed calls by result",
      unit: "reqps",
      queries: singleLine(rate('keyvault_call_seconds_count{result!="answered"}', "result"), "{{result}}"),
    },
    {
      title: "Requested keys",
      unit: "reqps",
      queries: singleLine(rate("keyvault_key_creations_total", "caller, outcome"), "{{caller}} {{outcome}}"),
    },
  ],
};

/** Selects only our roles. Other programs use the same metric names, but lack our readiness metric. */
const ours = (series: string) => `${series} and on (instance, job) deputize_ready`;

/** Panels about the roles' memory and processor time. */
export const processes: Row = {
  title: "Processes",
  panels: [
    {
      title: "Memory",
      unit: "bytes",
      queries: singleLine(ours("process_resident_memory_bytes"), "{{instance}}"),
    },
    {
      title: "Processor time",
      unit: "percentunit",
      queries: singleLine(ours("rate(process_cpu_seconds_total[$__rate_interval])"), "{{instance}}"),
    },
    {
      title: "Event loop, p99",
      unit: "s",
      queries: singleLine(ours("nodejs_eventloop_lag_p99_seconds"), "{{instance}}"),
    },
  ],
};
