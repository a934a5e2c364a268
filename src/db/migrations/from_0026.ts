/** Tables of organizations: members, invitations, domains and the activity log. */
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

/** Columns and indexes for the lists and searches of the console. */
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
      // For the history's filters and for its counts per day. Begins with the first columns of the key.
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
      // Sorts certificates by expiry. Those without an expiry come last.
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

/**
 * Partitions postings by month, like the history, and records the archived months. The existing table becomes
 * the partition for all times before a month in the near future. No row is moved. No row is read under the
 * lock, because a check constraint has already proved the bound.
 */
export const historyMonths = {
  name: "0028_history_months",
  bounds: [{ table: "ledger_postings", column: "posted_at" }],
  sql: `
alter table ledger_postings rename to ledger_postings_before;
alter index ledger_postings_pkey rename to ledger_postings_before_pkey;
alter table ledger_postings_before validate constraint ledger_postings_kind_check;
alter table credit_grants drop constraint credit_grants_account_id_posted_at_posting_id_fkey;

create table ledger_postings (
  account_id uuid not null,
  posted_at timestamptz not null,
  posting_id bytea not null,
  kind text not null,
  debit_book text not null,
  credit_book text not null,
  amount_micro_usd bigint not null,
  constraint ledger_postings_kind_check check (kind in ('alpha_credit', 'grant', 'verification')),
  constraint ledger_postings_check check (credit_book <> debit_book),
  constraint ledger_postings_amount_micro_usd_check check (amount_micro_usd > 0),
  primary key (account_id, posted_at, posting_id)
) partition by range (posted_at);

do $$
declare
  proof text := (
    select conname from pg_constraint
    where conrelid = 'ledger_postings_before'::regclass and conname ~ '^ledger_postings_before_\\d{4}_\\d{2}$'
  );
  -- Without a proof the rows are read here.
  bound timestamp := coalesce(
    to_date(right(proof, 7), 'YYYY_MM')::timestamp,
    date_trunc('month', now() at time zone 'UTC') + interval '2 months');
begin
  execute format('alter table ledger_postings attach partition ledger_postings_before for values from (minvalue) to (%L)',
                 bound at time zone 'UTC');
  if proof is not null then
    execute format('alter table ledger_postings_before drop constraint %I', proof);
  end if;
end $$;
create table ledger_postings_other partition of ledger_postings default;

-- A grant's posting is looked up by its key: no plan may read all postings for it.
set local enable_hashjoin = off;
set local enable_mergejoin = off;
alter table credit_grants add constraint credit_grants_account_id_posted_at_posting_id_fkey
  foreign key (account_id, posted_at, posting_id) references ledger_postings deferrable initially deferred;

create or replace view ledger_entries as
  select account_id, posted_at, posting_id, kind, credit_book as book, amount_micro_usd from ledger_postings
  union all
  select account_id, posted_at, posting_id, kind, debit_book, -amount_micro_usd from ledger_postings;

-- Archives of months that were read back and found whole. A month that got rows later has a second one.
create table history_archives (
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  manifest_hash bytea not null,
  -- How many rows the archive has of each table.
  row_counts jsonb not null,
  archived_at timestamptz not null,
  -- When the service dropped the month.
  dropped_at timestamptz,
  primary key (starts_at, manifest_hash)
);
`,
};

/** Records which request for a new API key was carried out, because others can change the object's marks. */
export const rotationRequests = {
  name: "0029_rotation_requests",
  sql: `
-- The last text of the annotation deputize.io/rotate-key that led to a new API key.
alter table connections add column rotation_request text;
`,
};

/** Credit that decisions can take without waiting for each other, and accounts that pay later. */
export const creditSlices = {
  name: "0030_credit_slices",
  sql: `
alter table balances
  -- Whether part of the credit is in balance_slices. Then no decision charges this row.
  add column is_split boolean not null default false,
  add column terms text not null default 'prepaid' check (terms in ('prepaid', 'postpaid')),
  add check (terms = 'prepaid' or not is_split);

-- Parts of an account's credit. A decision charges any slice that no other decision has locked.
create table balance_slices (
  account_id uuid not null references balances on delete cascade,
  slice integer not null,
  balance_micro_usd bigint not null check (balance_micro_usd >= 0),
  primary key (account_id, slice)
) with (fillfactor = 50);

-- Locks the balance of an account, and puts its slices back into it. Does nothing without a balance. Each
-- statement of this function sees what others committed before it, so no slice is missed.
create function join_slices(account uuid) returns void language plpgsql as $$
begin
  perform from balances where account_id = account for update;
  with slice as (delete from balance_slices where account_id = account returning balance_micro_usd)
  update balances set is_split = false,
    balance_micro_usd = balance_micro_usd + coalesce((select sum(slice.balance_micro_usd) from slice), 0)
  where account_id = account and is_split;
end $$;

create view account_credit as
  select account_id, low_at_micro_usd, terms,
         (balance_micro_usd + coalesce((
           select sum(s.balance_micro_usd) from balance_slices s where s.account_id = b.account_id), 0))::bigint
         as balance_micro_usd
  from balances b;

-- Changes of the terms, newest last. The columns of time and id are like those of postings, for one list.
create table credit_terms (
  account_id uuid not null references accounts,
  posted_at timestamptz not null,
  posting_id bytea not null,
  terms text not null check (terms in ('prepaid', 'postpaid')),
  reason text not null,
  primary key (account_id, posted_at, posting_id)
);
`,
};

/** Verifiers of other services whose challenges agents may answer. */
export const outsideVerifiers = {
  name: "0031_outside_verifiers",
  sql: `
-- Names of verifiers outside this service. An agent answers their challenges only for operations that name them.
alter table connections add column outside_verifiers text[] not null default '{}';
`,
};

/** The migrations of this file, in order. */
export const from0026 = [
  organizations,
  consoleColumns,
  historyMonths,
  rotationRequests,
  creditSlices,
  outsideVerifiers,
];
