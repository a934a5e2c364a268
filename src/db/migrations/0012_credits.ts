/**
 * Credit that is granted after the account's first, the mark at which it is running low, and notices: mail to
 * the owner of an account about something that happened to it.
 */
export const credits = {
  name: "0012_credits",
  sql: `
-- Every posting that is there fulfils the narrower rule, so none has to be read for the wider one.
alter table ledger_postings drop constraint ledger_postings_kind_check;
alter table ledger_postings add constraint ledger_postings_kind_check
  check (kind in ('alpha_credit', 'grant', 'verification')) not valid;

-- Why each grant was made. A reference is used once, for all accounts together.
create table credit_grants (
  reference text primary key,
  account_id uuid not null references accounts,
  posted_at timestamptz not null,
  posting_id bytea not null,
  reason text not null,
  unique (account_id, posted_at, posting_id),
  foreign key (account_id, posted_at, posting_id) references ledger_postings deferrable initially deferred
);

-- 20 % of the balance after the last credit: the balance that reaches it is low.
alter table balances add column low_at_micro_usd bigint not null default 0 check (low_at_micro_usd >= 0);
update balances b set low_at_micro_usd = credit.amount_micro_usd / 5
from ledger_postings credit where credit.kind = 'alpha_credit' and credit.account_id = b.account_id;

-- The number of the account's next event, taken under this row's lock.
alter table balances add column next_event_seq bigint not null default 1;

create table notices (
  -- The event that it tells of: one notice for each.
  event_id uuid primary key,
  account_id uuid not null references accounts,
  type text not null,
  payload text not null,
  state text not null check (state in ('waiting', 'sent', 'failed')),
  attempts smallint not null default 0,
  -- When it is due; while it is being sent, when it is free again.
  next_attempt_at timestamptz,
  created_at timestamptz not null,
  settled_at timestamptz,
  check ((state = 'waiting') = (next_attempt_at is not null)),
  check ((state = 'waiting') = (settled_at is null))
);
create index notices_due on notices (next_attempt_at) where state = 'waiting';
create index notices_settled on notices (settled_at) where settled_at is not null;
`,
};
