/** Tables of the namespaces that act for accounts, and of their approvers. */
export const clusters = {
  name: "0020_clusters",
  sql: `
-- The one cluster that the operator's shared token is good for: the first that used it.
create table operator_token_cluster (
  single boolean primary key default true check (single),
  cluster_id text not null
);
insert into operator_token_cluster (cluster_id)
select min(cluster_id) from operator_clusters having count(*) = 1;

-- Namespaces of clusters that want to act for an account; without accepted_at the owner has not said yes.
create table namespace_bindings (
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  -- The most that a platform from there may allow; null sets no bound.
  ceiling text[],
  -- Whether an approval in the cluster needs another person than the one who asked.
  four_eyes boolean not null default false,
  asked_at timestamptz not null,
  accepted_at timestamptz,
  primary key (account_id, cluster_id, namespace)
);

-- Users of clusters whose approvals count as the account owner's.
create table cluster_approvers (
  approver_id uuid primary key,
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  username text not null,
  linked_at timestamptz not null,
  unique (account_id, cluster_id, username)
);

-- The ceiling that an object's platform last had: created again under its name it gets no wider one.
create table declared_ceilings (
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  name text not null,
  ceiling text[] not null,
  primary key (account_id, cluster_id, namespace, name)
);

-- Where the object is that declares it; null when a person registered it.
alter table platforms add column object_namespace text, add column object_name text;
-- Of an account's platforms one at most is declared under a name.
create unique index platforms_object on platforms
  (account_id, split_part(external_id, '.', 1), object_namespace, object_name)
  where removed_at is null and object_name is not null;
alter table agents add column object_name text;

-- The object that declares it; the user who decided in its cluster, and the hash of the policies there.
alter table delegation_requests
  add column object_name text,
  add column decided_cluster text,
  add column decided_user text,
  add column decided_policies text;
`,
};

/** Tables for cluster objects that take over an already registered platform or agent. */
export const adoptions = {
  name: "0021_adoptions",
  sql: `
-- The account's owner says that an object may take over a platform or an agent. Used once.
create table adoptions (
  kind text not null check (kind in ('platform', 'agent')),
  adopted_id text not null,
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  name text not null,
  confirmed_at timestamptz not null,
  primary key (kind, adopted_id)
);

-- Objects that something was taken over from: they register nothing in its place.
create table released_objects (
  external_id text primary key,
  released_at timestamptz not null
);
`,
};

/** A table for the current setting `EVENTS`, and columns for dead letters that came from Kafka. */
export const eventCarriers = {
  name: "0022_event_carriers",
  sql: `
-- The way that the workers were started with last.
create table event_way (
  single boolean primary key default true check (single),
  way text not null check (way in ('embedded', 'kafka'))
);
insert into event_way (way) values ('embedded');

-- Topic, partition and offset that it was brought from; null where nothing brought it from afar.
alter table dead_letters add column origin jsonb;
-- Since when the topic of dead letters has it too.
alter table dead_letters add column carried_at timestamptz;
create index dead_letters_uncarried on dead_letters (created_at) where carried_at is null;
`,
};

/** Tables of history rows that wait for the audit topic, of published events, and of consumers' progress. */
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

/** Tables and columns for paused callbacks, and for deliveries that people resend. */
export const deliveriesForPeople = {
  name: "0024_deliveries_for_people",
  sql: `
alter table webhook_endpoints drop constraint webhook_endpoints_state_check;
alter table webhook_endpoints add constraint webhook_endpoints_state_check
  check (state in ('active', 'paused', 'suspended'));
-- When the account's owner last got a mail about a suspension.
alter table webhook_endpoints add column noticed_at timestamptz;
-- Up to which event what was held, or waits, is dropped before anything is sent again.
alter table webhook_endpoints add column discard_through bigint;
create index webhook_endpoints_discard on webhook_endpoints (endpoint_id) where discard_through is not null;
create index webhook_endpoints_silent on webhook_endpoints (state) where state <> 'active';
-- What is held of an endpoint, in its order.
create index webhook_deliveries_backlog on webhook_deliveries (endpoint_id, aggregate_seq) where state = 'held';

-- How many attempts there were before the current schedule began: the delivery was sent again then.
alter table webhook_deliveries add column schedule_start smallint not null default 0;
-- The order in which people look at them. Nothing read along the former index.
drop index webhook_deliveries_history;
create index webhook_deliveries_newest on webhook_deliveries (endpoint_id, created_at, delivery_id);

-- Jobs that send deliveries of a range of time again, worked off in small steps from the oldest to the newest.
create table webhook_recoveries (
  recovery_id uuid primary key,
  endpoint_id uuid not null references webhook_endpoints,
  since timestamptz not null,
  until timestamptz not null,
  states text[] not null,
  state text not null default 'running' check (state in ('running', 'done', 'cancelled')),
  -- The last delivery that was looked at; at first one before all of the range.
  seen_at timestamptz not null,
  seen_id uuid not null default '00000000-0000-0000-0000-000000000000',
  examined bigint not null default 0,
  resent bigint not null default 0,
  left_out bigint not null default 0,
  stepped_at timestamptz not null,
  created_at timestamptz not null,
  finished_at timestamptz,
  check ((state = 'running') = (finished_at is null))
);
create unique index webhook_recoveries_open on webhook_recoveries (endpoint_id) where finished_at is null;
create index webhook_recoveries_newest on webhook_recoveries (endpoint_id, created_at, recovery_id);
create index webhook_recoveries_finished on webhook_recoveries (finished_at) where finished_at is not null;
`,
};

/** An index for listing, replaying and deleting dead letters by age. */
export const deadLettersAge = {
  name: "0025_dead_letters_age",
  sql: `
create index dead_letters_age on dead_letters (created_at);
`,
};
