/** Columns and tables for connecting customers to products with OAuth. A part of migration 0032. */
export const OAUTH = `
-- Whose members may connect products for an organization.
alter table accounts add column connecting text not null default 'owners_and_approvers',
  add constraint accounts_connecting_check check (connecting in ('owners', 'owners_and_approvers')) not valid;

alter table platforms
  -- Where the service may send a browser back to after a customer has decided.
  add column redirect_uris text[] not null default '{}',
  -- The replaced client secret, and until when it is still accepted.
  add column signing_former_sealed bytea,
  add column signing_former_until timestamptz;

-- Codes of customers who have decided to connect. A code is valid for a minute, and each request has at most one.
create table connect_codes (
  code_hash bytea primary key,
  request_id uuid not null unique,
  platform_id uuid not null references platforms,
  -- The account that connects, the name that the publisher will see, and the member who decided.
  customer_account_id uuid not null references accounts,
  customer_name text not null,
  person_id uuid not null references accounts on delete cascade,
  redirect_uri text not null,
  code_challenge text not null,
  scopes text[] not null,
  -- What the person read.
  consent jsonb not null,
  -- The approval with which a member connects whose role alone does not allow it.
  proposal_id uuid,
  expires_at timestamptz not null
);
create index on connect_codes (expires_at);

-- What the members of customers read when they connected.
create table connect_consents (
  consent_id uuid primary key,
  connection_id uuid not null references connections,
  -- No reference, because the account may be deleted later.
  person_id uuid not null,
  scopes text[] not null,
  consent jsonb not null,
  -- Whether the platform was a draft, so that this is a test.
  is_test boolean not null,
  consented_at timestamptz not null,
  -- The member who had approved the product in advance, and what this member read. Null: nobody had to.
  approved_by uuid,
  approved_at timestamptz,
  approved_consent jsonb,
  check (num_nonnulls(approved_by, approved_at, approved_consent) in (0, 3))
);
create index on connect_consents (connection_id);

-- Products that members of an organization propose to connect, and the approvals of these.
create table connect_proposals (
  proposal_id uuid primary key,
  account_id uuid not null references accounts,
  platform_id uuid not null references platforms,
  -- The member who proposed last. No reference, because the account may be deleted later.
  proposed_by uuid not null,
  -- The chosen scopes, and what the request of the product contained.
  scopes text[] not null,
  account_label text,
  redirect_uri text not null,
  created_at timestamptz not null,
  -- When the proposal lapses, or when its approval ends.
  expires_at timestamptz not null,
  approved_by uuid,
  approved_at timestamptz,
  -- What the member read who approved.
  consent jsonb,
  check (num_nonnulls(approved_by, approved_at, consent) in (0, 3))
);
create unique index on connect_proposals (account_id, platform_id, (approved_at is null));
create index on connect_proposals (platform_id);
create index on connect_proposals (expires_at);

-- Proposals and approvals end when the platform is no longer published as it was, whichever process changes it.
create function end_proposals() returns trigger language plpgsql as $$
begin
  delete from connect_proposals where platform_id = new.platform_id;
  return null;
end $$;
create trigger platforms_withdrawn after update of publish_state, published_domain, removed_at on platforms
  for each row when (old.publish_state = 'published' and (new.publish_state <> 'published'
    or new.published_domain is distinct from old.published_domain or new.removed_at is not null))
  execute function end_proposals();
`;
