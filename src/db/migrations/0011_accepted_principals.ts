/**
 * Whose authority counts at a connection, what AuthZEN answers there without a proof, and decisions made
 * elsewhere.
 */
export const acceptedPrincipals = {
  name: "0011_accepted_principals",
  sql: `
-- Root identities of other accounts whose authority a connection accepts, and for what. Its own account's needs no row.
create table accepted_principals (
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  human_id text not null references accounts (human_id),
  -- As it was written, and expanded: what is compared with the required scope.
  scopes text[] not null check (cardinality(scopes) > 0),
  granted_scope text[] not null,
  -- Accepted before this moment; null: until it is taken back.
  accepted_until timestamptz,
  created_at timestamptz not null,
  primary key (connection_id, human_id)
);
create index accepted_principals_page on accepted_principals (connection_id, created_at desc, human_id desc);

-- Whether questions without a proof are answered from the registry.
alter table connections add column registry_answers boolean not null default false;

-- Every replica drops what it remembers of a connection's keys when what they stand for changes.
create function notify_connection_keys() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_keys', key_prefix) from api_keys where connection_id = new.connection_id;
  return null;
end $$;
create trigger connections_changed after update of verifier_id, registry_answers on connections
  for each row when (old.verifier_id <> new.verifier_id or old.registry_answers <> new.registry_answers)
  execute function notify_connection_keys();

-- A decision that another account's connection made on this account's authority: who decided. It was charged there.
alter table audit_events add column verifier_account_id uuid;
drop index audit_events_allows;
create index audit_events_allows on audit_events (cert_id, occurred_at desc)
  where decision = 'allow' and verifier_account_id is null;
`,
};
