/** Platforms, their connections and API keys, and agents. */
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
