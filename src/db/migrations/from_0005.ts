/** Tables of the outbox, its relay's shards, the inbox of consumers, and webhook deliveries. */
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

/**
 * A table of decisions on proofs that are bound to one operation, and of their outcomes. The key contains the
 * application's id of the operation.
 */
export const operations = {
  name: "0006_operations",
  sql: `
create table invocations (
  account_id uuid not null,
  connection_id uuid not null,
  invocation_id text not null,
  -- SHA-256 of the operation and its required scope: another one under the same id is a conflict.
  operation_hash bytea not null,
  -- The decision: its audit event, whose id is its receipt's, and the protocol's word for a refusal.
  event_id uuid not null,
  decided_at timestamptz not null,
  error_reason text,
  outcome text check (outcome in ('executed', 'failed', 'refused_by_receiver', 'not_attempted')),
  outcome_detail text,
  outcome_occurred_at timestamptz,
  outcome_recorded_at timestamptz,
  primary key (account_id, connection_id, invocation_id),
  check ((outcome is null) = (outcome_recorded_at is null) and (outcome is null) = (outcome_occurred_at is null))
);
`,
};

/**
 * A column for the limits of an account's root key. They are stored before the API requests the key from the
 * vault, so that each attempt requests the same key.
 */
export const accountCeiling = {
  name: "0007_account_ceiling",
  sql: `
alter table accounts add column root_ceiling text[];
`,
};

/** Columns for a connection's next webhook secret, and for the former secret until its grace period ends. */
export const webhookSecrets = {
  name: "0008_webhook_secrets",
  sql: `
alter table connections
  add column webhook_next_secret_sealed bytea,
  add column webhook_former_secret_sealed bytea,
  add column webhook_former_until timestamptz,
  add check ((webhook_former_secret_sealed is null) = (webhook_former_until is null));
create index connections_webhook_former on connections (webhook_former_until) where webhook_former_until is not null;
`,
};

/** A table of the last revocation list of each root identity, in the form that the root key signed. */
export const revocationLists = {
  name: "0009_revocation_lists",
  sql: `
create table revocation_lists (
  account_id uuid primary key references accounts,
  list_json text,
  -- Who has the next list signed, and until when nobody else does.
  run_id uuid,
  locked_until timestamptz,
  check ((run_id is null) = (locked_until is null))
);
create index certificates_revoked on certificates (account_id, cert_id) include (expires_at) where status = 'revoked';
`,
};

/**
 * Moves outcomes to the history, because invocations are deleted after some time. Adds an index that finds
 * invocations by age.
 */
export const outcomes = {
  name: "0010_outcomes",
  sql: `
create table outcomes (
  account_id uuid not null,
  -- The decision: the moment and the id of its audit event.
  decided_at timestamptz not null,
  event_id uuid not null,
  outcome text not null check (outcome in ('executed', 'failed', 'refused_by_receiver', 'not_attempted')),
  detail text,
  occurred_at timestamptz not null,
  recorded_at timestamptz not null,
  primary key (account_id, decided_at, event_id)
) partition by range (decided_at);
create table outcomes_other partition of outcomes default;

insert into outcomes (account_id, decided_at, event_id, outcome, detail, occurred_at, recorded_at)
select account_id, decided_at, event_id, outcome, outcome_detail, outcome_occurred_at, outcome_recorded_at
from invocations where outcome is not null;

alter table invocations drop column outcome, drop column outcome_detail, drop column outcome_occurred_at,
  drop column outcome_recorded_at;
create index invocations_age on invocations (decided_at);
`,
};

/** Tables and columns for accepted principals, AuthZEN answers without a proof, and external decisions. */
export const acceptedPrincipals = {
  name: "0011_accepted_principals",
  sql: `
-- Root identities of other accounts whose authority a connection accepts, and for what. Its own account's needs no row.
create table accepted_principals (
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  human_id text not null references accounts (human_id),
  -- As it was written, and expanded: what is compared with the required scope.
  scopes text[] not null check (cardinality(scopes) > 0),
  granted_scope text[] not null,
  -- Accepted before this moment; null: until it is taken back.
  accepted_until timestamptz,
  created_at timestamptz not null,
  primary key (connection_id, human_id)
);
create index accepted_principals_page on accepted_principals (connection_id, created_at desc, human_id desc);

-- Whether questions without a proof are answered from the registry.
alter table connections add column registry_answers boolean not null default false;

-- Every replica drops what it remembers of a connection's keys when what they stand for changes.
create function notify_connection_keys() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_keys', key_prefix) from api_keys where connection_id = new.connection_id;
  return null;
end $$;
create trigger connections_changed after update of verifier_id, registry_answers on connections
  for each row when (old.verifier_id <> new.verifier_id or old.registry_answers <> new.registry_answers)
  execute function notify_connection_keys();

-- A decision that another account's connection made on this account's authority: who decided. It was charged there.
alter table audit_events add column verifier_account_id uuid;
drop index audit_events_allows;
create index audit_events_allows on audit_events (cert_id, occurred_at desc)
  where decision = 'allow' and verifier_account_id is null;
`,
};
