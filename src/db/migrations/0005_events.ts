/** The outbox, the shards of its relay, the inbox of its consumers, and webhook deliveries. */
export const events = {
  name: "0005_events",
  sql: `
create table outbox (
  id bigint generated always as identity primary key,
  event_id uuid not null unique,
  aggregatetype text not null,
  aggregateid text not null,
  aggregate_seq bigint not null,
  type text not null,
  schema_version integer not null,
  shard smallint not null,
  payload text not null,
  headers jsonb not null,
  -- Secrets an event must carry, opened by the webhook worker only.
  sealed bytea,
  created_at timestamptz not null
);
`,
};
