/** What the hot path reads and writes: challenge keys, spent challenges, the audit history. */
export const proofs = {
  name: "0004_proofs",
  sql: `
create table challenge_keys (
  day integer primary key,
  secret_sealed bytea not null,
  created_at timestamptz not null
);

-- A challenge carries its own expiry, so the pair is unique when the challenge is. Old partitions are dropped whole.
create table spent_challenges (
  connection_id uuid not null,
  expires_at timestamptz not null,
  challenge bytea not null,
  primary key (connection_id, expires_at, challenge)
) partition by range (expires_at);
create table spent_challenges_other partition of spent_challenges default;

create table audit_events (
  account_id uuid not null,
  occurred_at timestamptz not null,
  event_id uuid not null,
  event_type text not null check (event_type in ('proof.verified', 'proof.rejected', 'proof.presented')),
  connection_id uuid not null,
  agent_id text not null,
  human_id text,
  cert_id text,
  decision text check (decision in ('allow', 'deny', 'indeterminate')),
  decision_reason text,
  required_scope text,
  -- Canonical JSON of the verification receipt and its SHA-256; the receipt's id is the event's.
  receipt text,
  receipt_hash bytea,
  primary key (account_id, occurred_at, event_id),
  check ((event_type = 'proof.presented') = (decision is null))
) partition by range (occurred_at);
create table audit_events_other partition of audit_events default;
create index audit_events_allows on audit_events (cert_id, occurred_at desc) where decision = 'allow';
`,
};
