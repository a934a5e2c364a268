/** The outbox, the shards of its relay, the inbox of its consumers, and webhook deliveries. */
export const events = {
  name: "0005_events",
  sql: `
-- Inserted with the change, deleted once published, never updated.
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
  created_at timestamptz not null,
  unique (aggregateid, aggregate_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Secrets that an event's webhook body carries: they never pass through the bus. Deleted when the event is consumed.
create table event_secrets (
  event_id uuid primary key,
  sealed bytea not null,
  created_at timestamptz not null
);

create table relay_workers (
  worker_id uuid primary key,
  alive_until timestamptz not null
);
create table relay_shards (
  shard smallint primary key,
  owner uuid,
  epoch bigint not null default 0,
  held_until timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into relay_shards (shard) select generate_series(0, 7);

-- What each consumer has handled, written in the handler's transaction.
create table inbox (
  consumer text not null,
  event_id uuid not null,
  handled_at timestamptz not null,
  primary key (consumer, event_id)
);
create index inbox_age on inbox (handled_at);

-- Events that a consumer could not handle, for people to look at.
create table dead_letters (
  consumer text not null,
  event_id uuid not null,
  event jsonb not null,
  reason text not null,
  created_at timestamptz not null,
  primary key (consumer, event_id)
);

create table webhook_endpoints (
  endpoint_id uuid primary key,
  connection_id uuid not null unique references connections,
  state text not null default 'active' check (state in ('active', 'suspended')),
  suspended_at timestamptz,
  suspend_reason text check (suspend_reason in ('gone', 'failing')),
  -- How many requests may be under way at once; grows on success, halves on failure.
  concurrency smallint not null default 4,
  claims bigint not null default 0,
  claimed_at timestamptz not null default '-infinity',
  failures_in_row integer not null default 0,
  failing_since timestamptz,
  window_started_at timestamptz,
  window_attempts integer not null default 0,
  window_failures integer not null default 0,
  -- The circuit breaker: while open nothing is sent; then one probe closes it or opens it for longer.
  breaker_open_seconds integer,
  breaker_open_until timestamptz,
  created_at timestamptz not null,
  check ((state = 'suspended') = (suspended_at is not null)),
  check ((breaker_open_seconds is null) = (breaker_open_until is null))
) with (fillfactor = 50);

create table webhook_deliveries (
  delivery_id uuid primary key,
  endpoint_id uuid not null references webhook_endpoints,
  event_id uuid not null,
  event_type text not null,
  aggregate_seq bigint not null,
  -- The bytes that are sent, frozen here; sealed when they carry secrets, and then erased once delivered.
  body text,
  body_sealed bytea,
  state text not null check (state in
    ('pending', 'sending', 'delivered', 'rejected', 'blocked', 'failed', 'held', 'cancelled')),
  attempts smallint not null default 0,
  next_attempt_at timestamptz,
  lease_token uuid,
  lease_until timestamptz,
  created_at timestamptz not null,
  settled_at timestamptz,
  check ((state = 'pending') = (next_attempt_at is not null)),
  check ((state = 'sending') = (lease_token is not null)),
  check ((state = 'sending') = (lease_until is not null)),
  check ((state in ('delivered', 'rejected', 'blocked', 'failed', 'cancelled')) = (settled_at is not null)),
  check (num_nonnulls(body, body_sealed) = 1 or (num_nonnulls(body, body_sealed) = 0 and settled_at is not null))
) with (fillfactor = 70);
create index webhook_deliveries_waiting on webhook_deliveries (endpoint_id) where state = 'pending';
create index webhook_deliveries_retries on webhook_deliveries (endpoint_id, next_attempt_at)
  where state = 'pending' and attempts > 0;
-- Deliveries whose first attempt has no result yet: they go out one after the other.
create index webhook_deliveries_first on webhook_deliveries (endpoint_id, aggregate_seq)
  where state in ('pending', 'sending') and attempts = case state when 'sending' then 1 else 0 end;
create index webhook_deliveries_sending on webhook_deliveries (endpoint_id, lease_until) where state = 'sending';
create index webhook_deliveries_history on webhook_deliveries (endpoint_id, aggregate_seq desc);
create index webhook_deliveries_settled on webhook_deliveries (settled_at) where settled_at is not null;
create index webhook_deliveries_held on webhook_deliveries (created_at) where state = 'held';

create table webhook_attempts (
  delivery_id uuid not null references webhook_deliveries on delete cascade,
  attempt smallint not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  outcome text not null,
  status smallint,
  detail text,
  response_excerpt bytea,
  primary key (delivery_id, attempt)
);
`,
};
