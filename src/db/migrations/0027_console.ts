/** What people see and look for in the console. */
export const consoleColumns = {
  name: "0027_console",
  sql: `
-- The user of a cluster who asked by an object.
alter table delegation_requests add column requested_user text;
-- Since when a callback is paused; null for a pause that is older than this.
alter table webhook_endpoints add column paused_at timestamptz;
-- Null without a next secret, and for one that is older than this.
alter table connections add column webhook_next_secret_at timestamptz;
-- One row for each subject: the last reconciliation of the ledger, what a worker read of Kafka.
create table reports (
  subject text primary key,
  reported_at timestamptz not null,
  content jsonb not null
);
`,
  indexes: [
    {
      // A history is narrowed down, and counted by day, in one index that begins as its key does.
      name: "audit_events_filters",
      table: "audit_events",
      on: `(account_id, occurred_at, event_id, decision, connection_id, agent_id, cert_id,
        required_scope, decision_reason, verifier_account_id)`,
    },
    {
      name: "audit_events_certificate",
      table: "audit_events",
      on: `(account_id, cert_id, occurred_at desc, event_id desc) where cert_id is not null`,
    },
    {
      // The next to end first; those without an end last.
      name: "certificates_ending",
      table: "certificates",
      on: `(account_id, (coalesce(expires_at, '9999-12-31T00:00:00Z'::timestamptz)), cert_id)`,
    },
    {
      name: "certificates_of_agent",
      table: "certificates",
      on: "(account_id, agent_id, issued_at desc, cert_id desc)",
    },
    {
      name: "organization_activity_actor",
      table: "organization_activity",
      on: "(organization_id, actor_account_id, occurred_at desc, activity_id desc)",
    },
    { name: "agents_account", table: "agents", on: "(account_id, created_at desc, agent_id desc)" },
  ],
};
