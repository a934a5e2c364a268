/** Row types of the outbox, its consumers, webhook deliveries and notices, by table name. */
export type EventTables = {
  event_repairs: EventRepairRow;
  event_way: EventWayRow;
  outbox: OutboxRow;
  published_events: PublishedEventRow;
  history_queue: HistoryQueueRow;
  event_secrets: EventSecretsRow;
  relay_workers: RelayWorkerRow;
  relay_shards: RelayShardRow;
  inbox: InboxRow;
  dead_letters: DeadLetterRow;
  webhook_endpoints: WebhookEndpointRow;
  webhook_deliveries: WebhookDeliveryRow;
  webhook_attempts: WebhookAttemptRow;
  webhook_recoveries: WebhookRecoveryRow;
  notices: NoticeRow;
  mail_topics: MailTopicRow;
  mail_choices: MailChoiceRow;
  mailing_queues: MailingQueueRow;
  request_channels: ChannelRow;
  reports: ReportRow;
};

/** A process's latest report about a subject. */
export type ReportRow = { subject: string; reported_at: Date; content: unknown };

export type OutboxRow = {
  id: number;
  event_id: string;
  aggregatetype: string;
  aggregateid: string;
  aggregate_seq: number;
  type: string;
  schema_version: number;
  shard: number;
  payload: string;
  headers: Record<string, string>;
  created_at: Date;
};

/** An event of the outbox that Kafka has confirmed. */
export type PublishedEventRow = Omit<OutboxRow, "id"> & { published_at: Date };

/** A row of the history that the audit topic does not contain yet. */
export type HistoryQueueRow = {
  account_id: string;
  occurred_at: Date;
  event_id: string;
  /** Postgres computes this column. */
  shard?: number;
  traceparent: string | null;
};

/**
 * A consumer's progress in the search for lost events: the time up to which it has handled all published
 * events, and the partition ends that it must pass next.
 */
export type EventRepairRow = {
  consumer: string;
  due_at: Date;
  handled_until: Date | null;
  sampled_at: Date | null;
  /** Offsets by partition, as strings. */
  sampled_ends: Record<string, string> | null;
};

/** The current setting `EVENTS`. The table has one row. */
export type EventWayRow = { single: boolean; way: "embedded" | "kafka" };

export type EventSecretsRow = { event_id: string; sealed: Buffer; created_at: Date };

export type RelayWorkerRow = { worker_id: string; alive_until: Date };

export type RelayShardRow = { shard: number; owner: string | null; epoch: number; held_until: Date };

export type InboxRow = { consumer: string; event_id: string; handled_at: Date };

export type DeadLetterRow = {
  consumer: string;
  event_id: string;
  event: unknown;
  reason: string;
  created_at: Date;
  /** The position in Kafka from which the event was read, or null without Kafka. */
  origin: { topic: string; partition: number; offset: string } | null;
  carried_at: Date | null;
};

export type WebhookEndpointRow = {
  endpoint_id: string;
  connection_id: string;
  state: "active" | "paused" | "suspended";
  suspended_at: Date | null;
  suspend_reason: "gone" | "failing" | null;
  paused_at: Date | null;
  concurrency: number;
  claims: number;
  claimed_at: Date;
  failures_in_row: number;
  failing_since: Date | null;
  window_started_at: Date | null;
  window_attempts: number;
  window_failures: number;
  breaker_open_seconds: number | null;
  breaker_open_until: Date | null;
  noticed_at: Date | null;
  discard_through: number | null;
  /** Only deliveries that were created before this time are discarded. */
  discard_before: Date | null;
  /** Whether the endpoint is paused because there is no callback URL. `paused_at` is null then. */
  awaits_url: boolean;
  /** The lane that a claim served last. */
  served_lane: number;
  created_at: Date;
};

export type WebhookDeliveryRow = {
  delivery_id: string;
  endpoint_id: string;
  event_id: string;
  event_type: string;
  /** The lane of its connection, and its place in the lane. */
  aggregate_seq: number;
  /** The customer's connection that the event belongs to. Null for an event of the own connection. */
  customer_connection_id: string | null;
  body: string | null;
  body_sealed: Buffer | null;
  state: "pending" | "sending" | "delivered" | "rejected" | "blocked" | "failed" | "held" | "cancelled";
  attempts: number;
  schedule_start: number;
  next_attempt_at: Date | null;
  lease_token: string | null;
  lease_until: Date | null;
  created_at: Date;
  settled_at: Date | null;
};

export type WebhookAttemptRow = {
  delivery_id: string;
  attempt: number;
  started_at: Date;
  ended_at: Date;
  outcome: string;
  status: number | null;
  detail: string | null;
  response_excerpt: Buffer | null;
};

/** A job that resends the deliveries of a range of time. */
export type WebhookRecoveryRow = {
  recovery_id: string;
  endpoint_id: string;
  since: Date;
  until: Date;
  states: WebhookDeliveryRow["state"][];
  state: "running" | "done" | "cancelled";
  seen_at: Date;
  seen_id: string;
  examined: number;
  resent: number;
  left_out: number;
  stepped_at: Date;
  created_at: Date;
  finished_at: Date | null;
};

/** Kinds of mails about delegation requests. */
export type RequestMailKind = "request_waits" | "request_lapses" | "request_decided" | "authority_lent";

/** Kinds of mails about requests, also about proposals to connect a product. */
export type MailKind = RequestMailKind | "product_proposed";

export type MailTopicRow = { topic_id: string; kind: MailKind; request_id: string; created_at: Date };

/** How often a person gets a kind of mail. */
export type MailChoiceRow = { account_id: string; kind: MailKind; choice: "every" | "daily" | "off" };

/**
 * Requests of an account about which a person waits for a mail, and the last mail. Rows of the kind
 * `channel` are for messages to the account's channel. Their `person_id` is the account's id.
 */
export type MailingQueueRow = {
  person_id: string;
  account_id: string;
  kind: MailKind | "channel";
  request_ids: string[];
  /** How many further requests wait, and since when. */
  omitted: number;
  omitted_since: Date | null;
  due_at: Date | null;
  next_attempt_at: Date | null;
  attempts: number;
  mailed_at: Date | null;
  streak: number;
  paced_until: Date | null;
};

/** The apps to which requests can be sent. */
export const channelApps = ["slack", "teams"] as const;
export type ChannelApp = (typeof channelApps)[number];

/** The channel that gets an account's new requests. */
export type ChannelRow = {
  account_id: string;
  app: ChannelApp;
  url_sealed: Buffer;
  host: string;
  /** The service's base URL when the channel was set, for the links in messages. */
  console_root: string;
  set_by: string;
  set_at: Date;
  /** When the app accepted the first message, and the last one. */
  greeted_at: Date | null;
  posted_at: Date | null;
  fault: string | null;
};

export type NoticeRow = {
  event_id: string;
  account_id: string;
  type: string;
  payload: string;
  state: "waiting" | "sent" | "failed";
  attempts: number;
  next_attempt_at: Date | null;
  created_at: Date;
  settled_at: Date | null;
};
