/**
 * Sign-in codes of several clients beside each other, and what bounds guessing them: a row for each mail. A
 * refresh notes who made it. Addresses may hold letters beyond ASCII, which the service lowers itself.
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
