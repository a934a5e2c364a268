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

/**
 * Records the member to whom each cluster user is linked, and who set up links, bindings and confirmations.
 * The activity list has everyone who set one up since organizations have members. Before that, only the
 * person who opened the account could. A former member's links count for nobody.
 */
export const setups = {
  name: "0034_setups",
  sql: `
-- The member whose role decides, and the owner who linked the user. Null: not known.
alter table cluster_approvers add column member_id uuid, add column linked_by uuid;
-- The owner who accepted the namespace or changed its limits last, and who confirmed the adoption. Null: not known.
alter table namespace_bindings add column accepted_by uuid;
alter table adoptions add column confirmed_by uuid;

update cluster_approvers l set linked_by = m.actor_account_id
from (select distinct on (l.approver_id) l.approver_id, a.actor_account_id
  from cluster_approvers l join organization_activity a on a.organization_id = l.account_id
    and a.operation = 'link_cluster_approver' and a.status <> 'refused' and a.occurred_at <= l.linked_at
    and a.target ->> 'cluster_id' = l.cluster_id and a.target ->> 'username' = l.username
  order by l.approver_id, a.occurred_at desc, a.activity_id desc) m
where l.approver_id = m.approver_id;
update cluster_approvers set linked_by = account_id where linked_by is null;
update cluster_approvers l set member_id = linked_by
where exists (select from accounts where account_id = l.linked_by and account_id = l.account_id and own_role is not null)
   or exists (select from organization_members where organization_id = l.account_id and account_id = l.linked_by);

update namespace_bindings b set accepted_by = m.actor_account_id
from (select distinct on (b.account_id, b.cluster_id, b.namespace) b.account_id, b.cluster_id, b.namespace, a.actor_account_id
  from namespace_bindings b join organization_activity a on a.organization_id = b.account_id
    and a.operation = 'accept_namespace_binding' and a.status <> 'refused' and a.occurred_at <= b.accepted_at
    and a.target ->> 'cluster' = b.cluster_id and a.target ->> 'namespace' = b.namespace
  order by b.account_id, b.cluster_id, b.namespace, a.occurred_at desc, a.activity_id desc) m
where (b.account_id, b.cluster_id, b.namespace) = (m.account_id, m.cluster_id, m.namespace);
update namespace_bindings set accepted_by = account_id where accepted_at is not null and accepted_by is null;

update adoptions c set confirmed_by = m.actor_account_id
from (select distinct on (c.kind, c.adopted_id) c.kind, c.adopted_id, a.actor_account_id
  from adoptions c join organization_activity a on a.organization_id = c.account_id
    and a.operation = 'confirm_' || c.kind || '_adoption' and a.status <> 'refused' and a.occurred_at <= c.confirmed_at
    and a.target ->> (c.kind || '_id') = c.adopted_id::text
  order by c.kind, c.adopted_id, a.occurred_at desc, a.activity_id desc) m
where (c.kind, c.adopted_id) = (m.kind, m.adopted_id);
update adoptions set confirmed_by = account_id where confirmed_by is null;
delete from adoptions c
where not exists (select from accounts where account_id = c.confirmed_by and account_id = c.account_id and own_role = 'owner')
  and not exists (select from organization_members
                  where organization_id = c.account_id and account_id = c.confirmed_by and role = 'owner');
`,
};

/** The purpose of a request, in the words of whoever asks. */
export const purposes = {
  name: "0035_purposes",
  sql: `
alter table delegation_requests add column purpose text check (length(purpose) <= 300);
`,
};

/**
 * The words of platforms for their custom scopes. A request keeps the words from when it was made, so that a
 * later change does not alter what people saw when they decided.
 */
export const scopeDescriptions = {
  name: "0037_scope_descriptions",
  sql: `
alter table platforms add column scope_descriptions jsonb not null default '{}';
alter table delegation_requests add column scope_descriptions jsonb not null default '{}';
`,
};

/**
 * The uid of the namespace that a binding is for. Existing acceptances get the first uid that the operator
 * reports.
 */
export const namespaceUids = {
  name: "0038_namespace_uids",
  sql: `
alter table namespace_bindings add column namespace_uid text check (length(namespace_uid) <= 64);
`,
};

/** What waits to be mailed, for each account on its own. Former versions keep it in `mailings`. */
export const mailingQueues = {
  name: "0040_mailing_queues",
  sql: `
-- One row for each person, account and kind of mail. So one account cannot use up another account's mails.
create table mailing_queues (
  person_id uuid not null references accounts on delete cascade,
  account_id uuid not null references accounts on delete cascade,
  kind text not null check (kind in ('request_waits', 'request_lapses', 'request_decided', 'authority_lent')),
  request_ids text[] not null default '{}',
  -- How many further requests wait that request_ids has no room for, and since when.
  omitted integer not null default 0,
  omitted_since timestamptz,
  -- When the mail about these requests became due, and the next attempt. Null if nothing waits.
  due_at timestamptz,
  next_attempt_at timestamptz,
  attempts integer not null default 0,
  -- The last mail, how many mails followed each other without a quiet day, and when the next one may go.
  mailed_at timestamptz,
  streak integer not null default 0,
  paced_until timestamptz,
  primary key (person_id, kind, account_id),
  check ((due_at is null) = (next_attempt_at is null)),
  check ((omitted = 0) = (omitted_since is null))
);
create index on mailing_queues (next_attempt_at) where next_attempt_at is not null;
create index on mailing_queues (account_id);

-- When people were told that nobody had decided the request in time.
alter table delegation_requests add column lapse_noted_at timestamptz;
`,
  indexes: [
    {
      name: "delegation_requests_lapsing",
      table: "delegation_requests",
      on: "(expires_at) where status = 'pending'",
    },
  ],
};

/** The migrations of this file, in order. A new one goes to the end. */
export const latest = [mailings, setups, purposes, scopeDescriptions, namespaceUids, mailingQueues];
