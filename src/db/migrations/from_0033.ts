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

/** A condition for rows whose maker is no longer a member of the account. */
const hasLeft = (row: string, maker: string) => `${row}.${maker} is not null
  and not exists (select from accounts o where o.account_id = ${row}.account_id and o.account_id = ${row}.${maker} and o.own_role is not null)
  and not exists (select from organization_members m where m.organization_id = ${row}.account_id and m.account_id = ${row}.${maker})`;

/**
 * Records who accepted the authority of other accounts, and who listed verifiers outside this service. Forgets
 * former members, whose setups would otherwise end during the upgrade. Speeds up the count of a person's mails.
 */
export const acceptedBy = {
  name: "0036_accepted_by",
  sql: `
-- The owner who accepted the principal last. Null: not known, or the object that declares the platform.
alter table accepted_principals add column accepted_by uuid;
-- The member who changed the list last. Null: not known, or the list is empty.
alter table connections add column outside_verifiers_by uuid;

update accepted_principals p set accepted_by = c.account_id from connections c join platforms f using (platform_id)
where c.connection_id = p.connection_id and f.external_id is null;
with acts as materialized (
  select organization_id, target ->> 'platform_id' as platform_id, target ->> 'human_id' as human_id,
         actor_account_id, occurred_at, activity_id
  from organization_activity
  where operation in ('accept_principal', 'replace_accepted_principals') and status <> 'refused'
), makers as (
  select distinct on (p.connection_id, p.human_id) p.connection_id, p.human_id, a.actor_account_id
  from acts a
  join connections c on c.account_id = a.organization_id and c.platform_id::text = a.platform_id
  join accepted_principals p on p.connection_id = c.connection_id
  where a.human_id is null or a.human_id = p.human_id
  order by p.connection_id, p.human_id, a.occurred_at desc, a.activity_id desc
)
update accepted_principals p set accepted_by = m.actor_account_id from makers m
where m.connection_id = p.connection_id and m.human_id = p.human_id;
update accepted_principals p set accepted_by = null where ${hasLeft("p", "accepted_by")};

-- The activity list does not tell which setting a member changed, so several members leave it unknown.
update connections c set outside_verifiers_by = (
  select case count(distinct a.actor_account_id)
         when 0 then c.account_id when 1 then (array_agg(a.actor_account_id))[1] end
  from organization_activity a
  where a.organization_id = c.account_id and a.operation = 'change_connection' and a.status <> 'refused'
    and a.target ->> 'connection_id' = c.connection_id::text)
where outside_verifiers <> '{}';
update connections c set outside_verifiers_by = null where ${hasLeft("c", "outside_verifiers_by")};

update namespace_bindings b set accepted_by = null where ${hasLeft("b", "accepted_by")};
`,
  indexes: [{ name: "notices_account", table: "notices", on: "(account_id, type, created_at)" }],
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
      on: "(expires_at) where status in ('pending', 'expired')",
    },
  ],
};

/** Records which Kubernetes objects no longer exist, so that the upkeep can delete their undecided requests. */
export const goneObjects = {
  name: "0041_gone_objects",
  sql: `
-- Whether the operator has reported that the object is deleted. The operator never asks about the request again.
alter table delegation_requests add column object_gone boolean not null default false;
`,
};

/** Lets the upkeep find those requests without reading all requests. */
export const goneRequests = {
  name: "0042_gone_requests",
  sql: "comment on index delegation_requests_gone is 'Serves the deletion of requests whose object is gone'",
  indexes: [
    {
      name: "delegation_requests_gone",
      table: "delegation_requests",
      on: "(expires_at) where status in ('pending', 'expired', 'withdrawn') and object_gone",
    },
  ],
};

/** The browser that signed in. Null: it did not name itself, or signed in before this migration. */
export const userAgents = {
  name: "0043_user_agents",
  sql: `
alter table session_families add column user_agent text check (length(user_agent) <= 256);
`,
};

/** The migrations of this file, in order. A new one goes to the end. */
export const latest = [
  mailings,
  setups,
  purposes,
  acceptedBy,
  scopeDescriptions,
  namespaceUids,
  mailingQueues,
  goneObjects,
  goneRequests,
  userAgents,
];
