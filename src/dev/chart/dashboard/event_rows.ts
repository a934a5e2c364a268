import { maximum, quantiles, type Row, rate, singleLine } from "./queries.ts";

/** Panels about events, from the outbox to the callback URLs, and about the ledger. */
export const events: Row = {
  title: "Events and webhooks",
  panels: [
    { title: "Waiting events", unit: "short", queries: maximum("deputize_outbox_events", "", "outbox") },
    {
      title: "Oldest event",
      unit: "s",
      queries: [
        ...maximum("deputize_outbox_oldest_seconds", "", "outbox"),
        ...maximum("deputize_consumer_oldest_seconds", "consumer"),
        ...maximum("deputize_history_queue_oldest_seconds", "", "history"),
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
      title: "Time from change to handling",
      unit: "s",
      queries: quantiles("deputize_consumer_latency_seconds_bucket", "consumer"),
    },
    {
      title: "Dead letters",
      unit: "short",
      queries: [
        ...maximum("deputize_dead_letters", "consumer"),
        ...maximum("deputize_dead_letters_uncarried", "", "not in Kafka"),
      ],
    },
    {
      title: "Deliveries and endpoints",
      unit: "short",
      queries: [
        ...maximum("deputize_webhook_deliveries", "state", "deliveries {{state}}"),
        ...maximum("deputize_webhook_endpoints", "state", "endpoints {{state}}"),
      ],
    },
    {
      title: "Requests to callback URLs",
      unit: "reqps",
      queries: singleLine(rate("deputize_webhook_attempt_seconds_count", "outcome"), "{{outcome}}"),
    },
    {
      title: "Response time of callback URLs",
      unit: "s",
      queries: quantiles("deputize_webhook_attempt_seconds_bucket"),
    },
    {
      title: "Available measurements",
      unit: "short",
      description: "0 means that no worker can read this measurement, so its panels and alerts show nothing.",
      queries: maximum("deputize_measurement_up", "measurement"),
    },
    {
      title: "Ledger",
      unit: "short",
      queries: [
        ...maximum("deputize_ledger_differences", "kind", "differences: {{kind}}"),
        ...maximum("deputize_ledger_accounts", "", "accounts compared"),
      ],
    },
  ],
};

/** Panels whose series exist only with `EVENTS=kafka`. */
export const kafka: Row = {
  title: "Kafka, with EVENTS=kafka",
  panels: [
    {
      title: "Unread records",
      unit: "short",
      queries: singleLine(
        "sum by (topic, group) (max by (topic, group, partition) (deputize_kafka_consumer_lag))",
        "{{group}}",
      ),
    },
    {
      title: "Time until Kafka confirms",
      unit: "s",
      queries: quantiles('deputize_kafka_produce_seconds_bucket{result="written"}', "topic"),
    },
    {
      title: "Readers",
      unit: "short",
      queries: [
        ...maximum("deputize_kafka_reader_silent_seconds", "consumer", "{{consumer}} silent, seconds"),
        { expr: rate("deputize_kafka_pauses_total", "consumer"), legend: "{{consumer}} pauses a second" },
      ],
    },
    {
      title: "Waiting history entries",
      unit: "short",
      queries: maximum("deputize_history_queue_rows", "", "rows"),
    },
  ],
};
