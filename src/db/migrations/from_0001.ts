/** Tables of people, sessions, credit, stored answers for idempotency keys, rate limits and operators. */
export const accounts = {
  name: "0001_accounts",
  sql: `
create table accounts (
  account_id uuid primary key,
  email text not null unique check (email = lower(email)),
  first_name text,
  last_name text,
  onboarding_step text not null check (onboarding_step in ('profile', 'account_type', 'complete')),
  account_type text check (account_type in ('individual', 'organization')),
  organization_name text,
  human_id text unique,
  root_key_id text unique,
  root_public_key jsonb,
  created_at timestamptz not null,
  check (onboarding_step <> 'complete' or (human_id is not null and root_key_id is not null and root_public_key is not null))
);

create table sign_in_codes (
  email_hash bytea primary key,
  code_hash bytea not null,
  tries smallint not null default 0,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index sign_in_codes_expiry on sign_in_codes (expires_at);

create table session_families (
  family_id uuid primary key,
  account_id uuid not null references accounts,
  created_at timestamptz not null,
  ended_at timestamptz,
  end_reason text check (end_reason in ('logout', 'refresh_reused'))
);
create index session_families_account on session_families (account_id);

create table sessions (
  session_id uuid primary key,
  family_id uuid not null references session_families,
  account_id uuid not null references accounts,
  token_hash bytea not null unique,
  refresh_hash bytea not null unique,
  csrf_hash bytea not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  refresh_expires_at timestamptz not null,
  refreshed_at timestamptz
);
create index sessions_family on sessions (family_id);
create index sessions_age on sessions (refresh_expires_at);

create table balances (
  account_id uuid primary key references accounts,
  balance_micro_usd bigint not null check (balance_micro_usd >= 0)
);

-- Double entry: a posting moves an amount from one book to another, so the sum over all books is always 0.
create table ledger_postings (
  account_id uuid not null,
  posted_at timestamptz not null,
  posting_id bytea not null,
  kind text not null check (kind in ('alpha_credit', 'verification')),
  debit_book text not null,
  credit_book text not null check (credit_book <> debit_book),
  amount_micro_usd bigint not null check (amount_micro_usd > 0),
  primary key (account_id, posted_at, posting_id)
);
create view ledger_entries as
  select account_id, posted_at, posting_id, kind, credit_book as book, amount_micro_usd from ledger_postings
  union all
  select account_id, posted_at, posting_id, kind, debit_book, -amount_micro_usd from ledger_postings;

create table idempotency_keys (
  account_id uuid not null,
  route_id text not null,
  key text not null,
  body_hash bytea not null,
  -- Who runs the call, and until when nobody else may; an answer ends the run.
  run_id uuid not null,
  locked_until timestamptz not null,
  answer_sealed bytea,
  created_at timestamptz not null,
  primary key (account_id, route_id, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

-- Points used up in a window, shared by all replicas. Shape and use are rate-limiter-flexible's; \`expire\` is in Unix milliseconds.
create table rate_limits (
  key varchar(255) primary key,
  points integer not null default 0,
  expire bigint
);
create index rate_limits_age on rate_limits (expire);

-- The newest leader seen of each cluster's operator; what an older one asks for is refused.
create table operator_clusters (
  cluster_id text primary key,
  epoch bigint not null,
  seen_at timestamptz not null
);
`,
};

/** Tables of platforms, connections, API keys and agents. */
export const platforms = {
  name: "0002_platforms",
  sql: `
create table platforms (
  platform_id uuid primary key,
  account_id uuid not null references accounts,
  name text not null,
  description text not null,
  surface_type text not null,
  default_allowed_scopes text[] not null,
  publish_state text not null default 'draft' check (publish_state in ('draft', 'pending_review', 'published', 'suspended')),
  signing_secret_sealed bytea not null,
  external_id text unique,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  removed_at timestamptz
);
create index platforms_account on platforms (account_id, created_at desc, platform_id desc) where removed_at is null;

create table connections (
  connection_id uuid primary key,
  account_id uuid not null references accounts,
  platform_id uuid not null references platforms,
  verifier_id text not null,
  callback_url text,
  webhook_secret_sealed bytea not null,
  next_event_seq bigint not null default 1,
  -- The API key shown once, kept sealed for the operator until it says that it has stored it.
  undelivered_sealed bytea,
  created_at timestamptz not null,
  removed_at timestamptz
);
create index connections_account on connections (account_id);
create unique index connections_platform on connections (platform_id);

create table api_keys (
  key_prefix text primary key,
  key_hash bytea not null,
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  created_at timestamptz not null,
  retires_at timestamptz
);
create unique index api_keys_current on api_keys (connection_id) where retires_at is null;
create index api_keys_connection on api_keys (connection_id);

-- Every replica drops what it remembers of a key as soon as the change is committed.
create function notify_api_key() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_keys', coalesce(new.key_prefix, old.key_prefix));
  return null;
end $$;
create trigger api_keys_changed after update or delete on api_keys for each row execute function notify_api_key();

create table agents (
  agent_id text primary key,
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  name text not null,
  agent_type text not null,
  custody_mode text not null check (custody_mode in ('custodial', 'self_custody')),
  vault_key_id text unique,
  public_key jsonb not null,
  attestation jsonb,
  external_id text unique,
  created_at timestamptz not null,
  disabled_at timestamptz,
  -- Since when the vault has to be told of this agent's end or of its smaller ceiling; null: it knows.
  vault_due_at timestamptz
);
create index agents_connection on agents (connection_id, created_at desc, agent_id desc);
create index agents_vault_due on agents (vault_due_at) where vault_due_at is not null;
`,
};

/** Tables of delegation requests and certificates. An approval creates a certificate. */
export const delegations = {
  name: "0003_delegations",
  sql: `
create table delegation_requests (
  request_id text primary key,
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  agent_id text not null references agents,
  requested_scope text[] not null,
  -- json, not jsonb: what was asked for is kept as it was written.
  constraints json not null,
  -- What the certificate's end was asked to be: a moment, or seconds after approval; neither: until revoked.
  requested_expires_at timestamptz,
  requested_expires_in integer,
  status text not null check (status in ('pending', 'approved', 'denied', 'expired', 'withdrawn')),
  reason text,
  decided_by uuid references accounts,
  decided_at timestamptz,
  external_id text unique,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index delegation_requests_account on delegation_requests (account_id, created_at desc, request_id desc);
create index delegation_requests_pending on delegation_requests (account_id, expires_at) where status = 'pending';
create index delegation_requests_connection on delegation_requests (connection_id) where status = 'pending';

create table certificates (
  account_id uuid not null references accounts,
  cert_id text not null,
  connection_id uuid not null references connections,
  agent_id text not null references agents,
  request_id text not null unique references delegation_requests,
  approved_scope text[] not null,
  -- Expanded ceiling of the platform after it shrank; null while it never did.
  ceiling_scope text[],
  cert_json text not null,
  status text not null check (status in ('approved', 'revoked')),
  issued_at timestamptz not null,
  expires_at timestamptz,
  approved_by uuid not null references accounts,
  approval_channel text not null,
  revoked_at timestamptz,
  revoke_reason text,
  primary key (account_id, cert_id)
);
create unique index certificates_cert on certificates (cert_id);
create index certificates_agent on certificates (agent_id, issued_at desc) where status = 'approved';
create index certificates_connection on certificates (connection_id) where status = 'approved';
create index certificates_history on certificates (account_id, issued_at desc, cert_id desc);
`,
};

/** Tables of the verify path: challenge keys, spent challenges and the audit history. */
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
