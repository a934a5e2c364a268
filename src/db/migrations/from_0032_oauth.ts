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
  consented_at timestamptz not null
);
create index on connect_consents (connection_id);
`;
