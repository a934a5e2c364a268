import { most, one, quantiles, type Row, rate } from "./queries.ts";

/** From the outbox to callback URLs, and the ledger. */
export const events: Row = {
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

/** What only EVENTS=kafka has. */
export const kafka: Row = {
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
