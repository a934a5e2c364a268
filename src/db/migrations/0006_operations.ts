/**
 * Decisions on proofs that are bound to one operation, by the application's own id of it, and what came of
 * them.
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
