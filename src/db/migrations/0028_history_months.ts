/**
 * Postings by month as the history is, and which months of the history were archived. The table of postings
 * becomes the partition of all that is before a month ahead: no row is moved, and none is read while it is
 * locked, since its bound was proven before.
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
