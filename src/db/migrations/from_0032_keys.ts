/** API keys that may do less than full keys, and the last use of each key. A part of migration 0032. */
export const KEYS = `
-- API keys that may do less than a connection's full keys. They are separate rows, so that rotations of full keys and
-- processes of the version before do not touch them.
create table narrow_keys (
  key_prefix text primary key,
  key_hash bytea not null,
  role text not null check (role in ('agent', 'verify')),
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  -- The only agent that an agent key may use.
  agent_id text references agents,
  -- The prefix of the full key that made this one, or 'operator' for the key of a Kubernetes object. Null: a person did.
  made_with text,
  created_at timestamptz not null,
  ended_at timestamptz,
  -- When a replaced key of an object ends, after its grace period.
  retires_at timestamptz,
  -- A key that the operator has not stored yet, and the object's request that led to the key.
  undelivered_sealed bytea,
  rotation_request text,
  check ((role = 'agent') = (agent_id is not null))
);
create index on narrow_keys (connection_id, created_at desc, key_prefix desc);
create index on narrow_keys (agent_id) where ended_at is null;
-- An agent has at most one current key of its object.
create unique index on narrow_keys (agent_id) where made_with = 'operator' and ended_at is null and retires_at is null;
create trigger narrow_keys_changed after update or delete on narrow_keys
  for each row execute function notify_api_key();

-- The last use of each API key, full or narrow, to within some minutes.
create table key_uses (key_prefix text primary key, used_at timestamptz not null);

-- Keys end together with their agent and with their connection, whichever process ends these.
create function end_agent_keys() returns trigger language plpgsql as $$
begin
  update narrow_keys set ended_at = new.disabled_at, undelivered_sealed = null where agent_id = new.agent_id and ended_at is null;
  return null;
end $$;
create trigger agents_disabled after update of disabled_at on agents
  for each row when (old.disabled_at is null and new.disabled_at is not null) execute function end_agent_keys();
create function end_connection_keys() returns trigger language plpgsql as $$
begin
  update narrow_keys set ended_at = new.removed_at, undelivered_sealed = null where connection_id = new.connection_id and ended_at is null;
  return null;
end $$;
create trigger connections_removed after update of removed_at on connections
  for each row when (old.removed_at is null and new.removed_at is not null) execute function end_connection_keys();

create or replace function notify_connection_keys() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_keys', key_prefix) from (
    select key_prefix from api_keys where connection_id = new.connection_id
    union all select key_prefix from narrow_keys where connection_id = new.connection_id and ended_at is null) as keys;
  return null;
end $$;
`;
