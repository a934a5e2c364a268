/**
 * Outcomes belong to the history, beside the decisions that they came of; what tells an invocation again is
 * forgotten in time, and is found by its age.
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
