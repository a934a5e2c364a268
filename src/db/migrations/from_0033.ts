/** Mails to people about requests, and how often each person wants them. */
export const mailings = {
  name: "0033_mailings",
  sql: `
-- What happened to requests, until the sender has found the people who get a mail about it.
create table mail_topics (
  topic_id bigint generated always as identity primary key,
  kind text not null check (kind in ('request_waits', 'request_lapses', 'request_decided', 'authority_lent')),
  request_id text not null,
  created_at timestamptz not null
);

-- One row for each person and kind of mail: the choice, and what waits to be mailed.
create table mailings (
  account_id uuid not null references accounts on delete cascade,
  kind text not null check (kind in ('request_waits', 'request_lapses', 'request_decided', 'authority_lent')),
  choice text not null default 'every' check (choice in ('every', 'daily', 'off')),
  request_ids text[] not null default '{}',
  -- When the mail about these requests became due, and the next attempt. Null if nothing waits.
  due_at timestamptz,
  next_attempt_at timestamptz,
  attempts integer not null default 0,
  -- The last mail, how many mails followed each other without a quiet day, and when the next one may go.
  mailed_at timestamptz,
  streak integer not null default 0,
  paced_until timestamptz,
  primary key (account_id, kind),
  check ((due_at is null) = (next_attempt_at is null))
);
create index on mailings (next_attempt_at) where next_attempt_at is not null;

-- When people were reminded of a request that nobody had decided.
alter table delegation_requests add column reminded_at timestamptz;
`,
};
