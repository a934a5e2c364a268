/** What people do with deliveries: pause a callback, send again what was delivered or not. */
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
