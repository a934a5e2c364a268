import { maximum, quantiles, type Row, rate, singleLine } from "./queries.ts";

const KINDS = 'controller=~"platform|agent|delegation"';
const NAMES = 'name=~"platform|agent|delegation"';

/** Panels about the operator's objects, reconciliations, API calls and watches. */
export const operator: Row = {
  title: "Operator",
  panels: [
    {
      title: "Objects",
      unit: "short",
      queries: singleLine("max by (kind, reason) (deputize_operator_objects)", "{{kind}} {{reason}}"),
    },
    {
      title: "Reconciliations",
      unit: "ops",
      queries: singleLine(
        rate(`controller_runtime_reconcile_total{${KINDS}}`, "controller, result"),
        "{{controller}} {{result}}",
      ),
    },
    {
      title: "Duration of a reconciliation",
      unit: "s",
      queries: quantiles(`controller_runtime_reconcile_time_seconds_bucket{${KINDS}}`, "controller"),
    },
    {
      title: "Queue",
      unit: "short",
      queries: singleLine(`sum by (name) (workqueue_depth{${NAMES}})`, "{{name}}"),
    },
    {
      title: "Waiting for a worker",
      unit: "s",
      queries: quantiles(`workqueue_queue_duration_seconds_bucket{${NAMES}}`, "name"),
    },
    {
      title: "Time to finish urgent work",
      unit: "s",
      queries: quantiles("deputize_operator_urgent_seconds_bucket", "what"),
    },
    {
      title: "Calls to the API",
      unit: "reqps",
      queries: singleLine(rate("deputize_operator_api_call_seconds_count", "result"), "{{result}}"),
    },
    {
      title: "Duration of calls to the API",
      unit: "s",
      queries: quantiles("deputize_operator_api_call_seconds_bucket"),
    },
    {
      title: "Watches",
      unit: "s",
      queries: maximum("deputize_operator_watch_silence_seconds", "resource"),
    },
    {
      title: "Drift and orphans",
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
          legend: "reconciliations {{controller}}",
        },
        {
          expr: rate("deputize_operator_watch_failures_total", "resource"),
          legend: "watch {{resource}}",
        },
        { expr: rate("deputize_operator_lead_losses_total", "cause"), legend: "lead {{cause}}" },
      ],
    },
    {
      title: "Certificates that expire within a week",
      unit: "short",
      queries: singleLine(
        "count(deputize_delegation_expiry_timestamp_seconds - time() < 7 * 86400)",
        "delegations",
      ),
    },
  ],
};
