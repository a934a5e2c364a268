/**
 * Tables and columns for later credit grants, for the balance at which credit counts as low, and for notices,
 * which are emails to owners.
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

/**
 * Lets several clients have sign-in codes for one email address. Each email has its own row, which limits
 * guessing. Adds the client of the last refresh to a session. Allows email addresses with non-ASCII letters,
 * which the service lower-cases.
 */
export const signIn = {
  name: "0013_sign_in",
  sql: `
drop table sign_in_codes;

-- One row for each mail of the sign-in. A wrong try stays counted for 30 days after its code's end.
create table sign_in_mails (
  mail_id uuid primary key,
  email_hash bytea not null,
  kind text not null check (kind in ('digits', 'link', 'notice')),
  -- The browser that asked, by its cookie; nobody's for a notice.
  client_hash bytea,
  -- Asked for without a cookie.
  anonymous boolean not null default false,
  -- Good without a cookie: the newest of the anonymous ones.
  shared boolean not null default false,
  code_hash bytea,
  own_tries smallint not null default 0,
  shared_tries smallint not null default 0,
  created_at timestamptz not null,
  -- Null until the mail server took it over; until then its code is not good.
  mailed_at timestamptz,
  expires_at timestamptz not null,
  -- Replaced or spent.
  ended_at timestamptz,
  spent boolean not null default false,
  check (kind = 'notice' or (client_hash is not null and code_hash is not null))
);
create index sign_in_mails_address on sign_in_mails (email_hash, expires_at);
create index sign_in_mails_expiry on sign_in_mails (expires_at);

-- Who used a refresh token: a keyed hash of the client's network and user agent.
alter table sessions add column refreshed_by bytea;

alter table accounts drop constraint accounts_email_check;
alter table accounts add constraint accounts_email_check check (email = lower(email collate "C"));
`,
};

/**
 * Records the caller of each stored answer: a person or one connection. Deletes older stored answers, whose
 * caller is unknown.
 */
export const idempotencyCallers = {
  name: "0014_idempotency_callers",
  sql: `
delete from idempotency_keys;
alter table idempotency_keys add column caller text not null, drop constraint idempotency_keys_pkey,
  add primary key (account_id, caller, route_id, key);
`,
};

/**
 * Columns for the verifier's names at the time of a decision, if the verifier is a different account.
 * Existing rows get the current names.
 */
export const verifierNames = {
  name: "0015_verifier_names",
  sql: `
alter table audit_events add column verifier_platform_name text, add column verifier_organization_name text;
update audit_events e set verifier_platform_name = p.name, verifier_organization_name = a.organization_name
from connections c join platforms p using (platform_id) join accounts a on a.account_id = c.account_id
where e.verifier_account_id = c.account_id and e.connection_id = c.connection_id;
`,
};

/** A column for the amount of each grant. Reconciliation compares the amount with the grant's posting. */
export const grantAmounts = {
  name: "0016_grant_amounts",
  sql: `
alter table credit_grants add column amount_micro_usd bigint check (amount_micro_usd > 0);
update credit_grants g set amount_micro_usd = p.amount_micro_usd from ledger_postings p
where p.account_id = g.account_id and p.posted_at = g.posted_at and p.posting_id = g.posting_id;
alter table credit_grants alter column amount_micro_usd set not null;
`,
};

/**
 * A SQL function that returns whether a challenge is spent. The decision statement calls the function only if
 * credit is short. As a part of that statement, the same query would open every partition for each decision.
 */
export const isSpent = {
  name: "0017_is_spent",
  sql: `
create function is_spent(connection uuid, expiry timestamptz, spent bytea) returns boolean language plpgsql stable as $$
begin
  return exists (
    select from spent_challenges s where s.connection_id = connection and s.expires_at = expiry and s.challenge = spent);
end $$;
`,
};

/**
 * Binds each stored answer that contains a secret to one sign-in, and lets it be erased after minutes. Its
 * row remains, so that a repeated call does not run again. Erases existing answers with secrets immediately.
 */
export const keptSecrets = {
  name: "0018_kept_secrets",
  sql: `
alter table idempotency_keys
  -- The sign-in that may see the answer again, and until when; null when it shows no secret. Emptied: no bytes.
  add column session_family uuid,
  add column secret_until timestamptz,
  add check ((session_family is null) = (secret_until is null));
create index idempotency_keys_secrets on idempotency_keys (secret_until) where octet_length(answer_sealed) > 0;
update idempotency_keys set answer_sealed = '', secret_until = created_at, session_family = account_id
where answer_sealed is not null and route_id in
  ('register_personal_platform', 'register_platform', 'rotate_api_key', 'rotate_webhook_secret');
`,
};

/** An index for presented proofs, which are deleted with their challenges, oldest first. */
export const presented = {
  name: "0019_presented",
  sql: `
create index audit_events_presented on audit_events (occurred_at) where event_type = 'proof.presented';
`,
};
