/** What Kafka is still to be given of the history, and what was published to it. */
export const eventLog = {
  name: "0023_event_log",
  sql: `
-- Rows of the history that the audit topic does not have yet. A shard's rows are sent by one worker, in order.
create table history_queue (
  account_id uuid not null,
  occurred_at timestamptz not null,
  event_id uuid not null,
  shard smallint generated always as (get_byte(uuid_send(account_id), 15) % 8) stored,
  traceparent text,
  primary key (account_id, occurred_at, event_id)
);
create index history_queue_oldest on history_queue (occurred_at, event_id);

-- Events of the outbox that Kafka has confirmed, for as long as it can bring them.
create table published_events (
  event_id uuid primary key,
  aggregatetype text not null,
  aggregateid text not null,
  aggregate_seq bigint not null,
  type text not null,
  schema_version integer not null,
  shard smallint not null,
  payload text not null,
  headers jsonb not null,
  created_at timestamptz not null,
  published_at timestamptz not null
);
create index published_events_oldest on published_events (published_at);

-- How far it is known that a consumer has handled what was published; the ends of the topic's partitions at a
-- moment, which its offsets are to pass next; when that is looked at again.
create table event_repairs (
  consumer text primary key,
  due_at timestamptz not null,
  handled_until timestamptz,
  sampled_at timestamptz,
  sampled_ends jsonb
);
`,
};
