/**
 * People, their sessions and credit, answers kept for idempotency keys, rate limits, and the operators that
 * have called.
 */
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
