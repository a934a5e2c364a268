/** Members of organizations, their invitations, domains and what they did. */
export const organizations = {
  name: "0026_organizations",
  sql: `
-- What the address that opened an account may do for it; null once it has left its organization.
alter table accounts
  add column own_role text default 'owner'
    check (own_role in ('owner', 'approver', 'developer', 'auditor')),
  -- Whether who asked for a delegation may not approve it.
  add column four_eyes boolean not null default false;

-- Other accounts whose persons act for an organization.
create table organization_members (
  organization_id uuid not null references accounts on delete cascade,
  account_id uuid not null references accounts on delete cascade check (account_id <> organization_id),
  role text not null check (role in ('owner', 'approver', 'developer', 'auditor')),
  joined_at timestamptz not null,
  primary key (organization_id, account_id)
);
create index organization_members_account on organization_members (account_id);

-- Invitations that wait; one that is accepted or withdrawn goes.
create table organization_invitations (
  invitation_id uuid primary key,
  organization_id uuid not null references accounts on delete cascade,
  email text not null,
  role text not null check (role in ('owner', 'approver', 'developer', 'auditor')),
  token_hash bytea not null unique,
  invited_by uuid not null references accounts on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  unique (organization_id, email)
);
create index organization_invitations_end on organization_invitations (expires_at);

-- Changing calls for an organization: written before they run, and what came of them after it.
create table organization_activity (
  organization_id uuid not null references accounts on delete cascade,
  activity_id uuid not null,
  occurred_at timestamptz not null,
  actor_account_id uuid not null,
  actor_email text not null,
  actor_role text not null,
  operation text not null,
  target jsonb not null,
  status text not null check (status in ('begun', 'done', 'refused')),
  error_code text,
  primary key (organization_id, activity_id)
);
create index organization_activity_time on organization_activity (organization_id, occurred_at desc, activity_id desc);

-- Domains that an organization says are its own; a verified one is nobody else's.
create table organization_domains (
  organization_id uuid not null references accounts on delete cascade,
  domain text not null,
  token text not null,
  created_at timestamptz not null,
  verified_at timestamptz,
  -- When its record was looked up last, and since when it has not been found.
  checked_at timestamptz,
  failing_since timestamptz,
  primary key (organization_id, domain)
);
create unique index organization_domains_verified on organization_domains (domain) where verified_at is not null;
create index organization_domains_due on organization_domains (checked_at) where verified_at is not null;

-- The domain that a platform was published under.
alter table platforms add column published_domain text;

-- Members who asked and who revoked; null for what others did, and before this.
alter table delegation_requests add column requested_by uuid;
alter table certificates add column revoked_by uuid;
`,
};
