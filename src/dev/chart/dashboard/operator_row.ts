import { most, one, quantiles, type Row, rate } from "./queries.ts";

const KINDS = 'controller=~"platform|agent|delegation"';
const NAMES = 'name=~"platform|agent|delegation"';

/** Objects, visits, calls and watches of the operator. */
export const operator: Row = {
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
