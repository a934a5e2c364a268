import { CONNECT } from "./from_0032_connect.ts";
import { KEYS } from "./from_0032_keys.ts";
import { OAUTH } from "./from_0032_oauth.ts";

/** A condition for rows whose maker still acts for the account. */
const stays = (maker: string, account: string) => `(
  exists (select from accounts o where o.account_id = ${maker} and o.account_id = ${account} and o.own_role is not null)
  or exists (select from organization_members n where n.organization_id = ${account} and n.account_id = ${maker}))`;

/**
 * Finds the makers of links, bindings, confirmations, accepted principals and lists of verifiers in the
 * activity list. The list begins when organizations got members. Before that, only the person who opened the
 * account could make them. Stores the makers in tables that the migration drops again. So the migration reads
 * the growing list before it locks any other table.
 */
const READ_MAKERS = `
create table made_links as
select distinct on (l.approver_id) l.approver_id, coalesce(a.actor_account_id, l.account_id) as maker
from cluster_approvers l left join organization_activity a on a.organization_id = l.account_id
  and a.operation = 'link_cluster_approver' and a.status <> 'refused' and a.occurred_at <= l.linked_at
  and a.target ->> 'cluster_id' = l.cluster_id and a.target ->> 'username' = l.username
order by l.approver_id, a.occurred_at desc nulls last, a.activity_id desc;

create table made_bindings as
select distinct on (b.account_id, b.cluster_id, b.namespace) b.account_id, b.cluster_id, b.namespace,
  coalesce(a.actor_account_id, b.account_id) as maker
from namespace_bindings b left join organization_activity a on a.organization_id = b.account_id
  and a.operation = 'accept_namespace_binding' and a.status <> 'refused' and a.occurred_at <= b.accepted_at
  and a.target ->> 'cluster' = b.cluster_id and a.target ->> 'namespace' = b.namespace
where b.accepted_at is not null
order by b.account_id, b.cluster_id, b.namespace, a.occurred_at desc nulls last, a.activity_id desc;

create table made_confirmations as
select distinct on (c.kind, c.adopted_id) c.kind, c.adopted_id, coalesce(a.actor_account_id, c.account_id) as maker
from adoptions c left join organization_activity a on a.organization_id = c.account_id
  and a.operation = 'confirm_' || c.kind || '_adoption' and a.status <> 'refused' and a.occurred_at <= c.confirmed_at
  and a.target ->> (c.kind || '_id') = c.adopted_id::text
order by c.kind, c.adopted_id, a.occurred_at desc nulls last, a.activity_id desc;

create table made_principals as
select distinct on (p.connection_id, p.human_id) p.connection_id, p.human_id, c.account_id,
  coalesce(a.actor_account_id, case when f.external_id is null then c.account_id end) as maker
from accepted_principals p join connections c using (connection_id) join platforms f using (platform_id)
  left join organization_activity a on a.organization_id = c.account_id and a.status <> 'refused'
  and a.operation in ('accept_principal', 'replace_accepted_principals')
  and a.target ->> 'platform_id' = c.platform_id::text and coalesce(a.target ->> 'human_id', p.human_id) = p.human_id
order by p.connection_id, p.human_id, a.occurred_at desc nulls last, a.activity_id desc;

-- The activity list does not tell which setting a member changed, so several members leave it unknown.
create table made_verifiers as
select c.connection_id, c.account_id,
  case count(distinct a.actor_account_id) when 0 then c.account_id when 1 then (array_agg(a.actor_account_id))[1] end as maker
from connections c left join organization_activity a on a.organization_id = c.account_id
  and a.operation = 'change_connection' and a.status <> 'refused' and a.target ->> 'connection_id' = c.connection_id::text
where c.outside_verifiers <> '{}'
group by c.connection_id, c.account_id;
`;

const STORE_MAKERS = `
-- The member whose role decides, and the owner who linked the user. Null: not known.
alter table cluster_approvers add column member_id uuid, add column linked_by uuid;
-- The owner who accepted the namespace or changed its limits last. Null: not known, or no longer a member.
-- The uid of the namespace is null until the operator reports the first one.
alter table namespace_bindings add column accepted_by uuid,
  add column namespace_uid text check (length(namespace_uid) <= 64);
-- The owner who confirmed the adoption.
alter table adoptions add column confirmed_by uuid;
-- The owner who accepted the principal last. Null: not known, or the object that declares the platform.
alter table accepted_principals add column accepted_by uuid;
-- The member who changed the list last. Null: not known, or the list is empty.
alter table connections add column outside_verifiers_by uuid;

-- A former member's links count for nobody. Other setups of former members have an unknown maker, because they
-- would otherwise end during the upgrade.
update cluster_approvers l set linked_by = m.maker, member_id = case when ${stays("m.maker", "l.account_id")} then m.maker end
from made_links m where l.approver_id = m.approver_id;
update namespace_bindings b set accepted_by = m.maker from made_bindings m
where (b.account_id, b.cluster_id, b.namespace) = (m.account_id, m.cluster_id, m.namespace) and ${stays("m.maker", "b.account_id")};
update accepted_principals p set accepted_by = m.maker from made_principals m
where (p.connection_id, p.human_id) = (m.connection_id, m.human_id) and ${stays("m.maker", "m.account_id")};
update connections c set outside_verifiers_by = m.maker from made_verifiers m
where c.connection_id = m.connection_id and ${stays("m.maker", "m.account_id")};
update adoptions c set confirmed_by = m.maker from made_confirmations m
where (c.kind, c.adopted_id) = (m.kind, m.adopted_id);
delete from adoptions c
where not exists (select from accounts where account_id = c.confirmed_by and account_id = c.account_id and own_role = 'owner')
  and not exists (select from organization_members
                  where organization_id = c.account_id and account_id = c.confirmed_by and role = 'owner');
drop table made_links, made_bindings, made_confirmations, made_principals, made_verifiers;
`;

const MAILS = `
-- What happened to requests, until the sender has found the people who get a mail about it.
create table mail_topics (
  topic_id bigint generated always as identity primary key,
  kind text not null check (kind in ('request_waits', 'request_lapses', 'request_decided', 'authority_lent', 'product_proposed')),
  request_id text not null,
  created_at timestamptz not null
);

-- How often a person gets each kind of mail. Without a row: every time.
create table mail_choices (
  account_id uuid not null references accounts on delete cascade,
  kind text not null check (kind in ('request_waits', 'request_lapses', 'request_decided', 'authority_lent', 'product_proposed')),
  choice text not null check (choice in ('every', 'daily', 'off')),
  primary key (account_id, kind)
);

-- One row for each person, account and kind of mail. So one account cannot use up another account's mails.
create table mailing_queues (
  person_id uuid not null references accounts on delete cascade,
  account_id uuid not null references accounts on delete cascade,
  -- A message to the account's channel has the account as its person.
  kind text not null check (kind in
    ('request_waits', 'request_lapses', 'request_decided', 'authority_lent', 'product_proposed', 'channel')),
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
create index on mailing_queues (next_attempt_at) where next_attempt_at is not null and kind <> 'channel';
create index on mailing_queues (next_attempt_at) where next_attempt_at is not null and kind = 'channel';
create index on mailing_queues (account_id);

-- The Slack or Microsoft Teams channel that gets an account's new requests.
create table request_channels (
  account_id uuid primary key references accounts on delete cascade,
  app text not null check (app in ('slack', 'teams')),
  url_sealed bytea not null,
  host text not null,
  console_root text not null,
  set_by uuid not null,
  set_at timestamptz not null,
  greeted_at timestamptz,
  posted_at timestamptz,
  fault text
);
`;

const REQUESTS = `
alter table delegation_requests
  -- When people were reminded of a request that nobody had decided, and when they were told that it lapsed.
  add column reminded_at timestamptz,
  add column lapse_noted_at timestamptz,
  -- Why the agent needs it, in the words of whoever asks.
  add column purpose text,
  add constraint delegation_requests_purpose_check check (length(purpose) <= 300) not valid,
  -- The platform's words for its custom scopes when the request was made. Later changes do not alter them.
  add column scope_descriptions jsonb not null default '{}';
-- Undecided requests whose Kubernetes object is deleted. The operator never asks about them again.
create table gone_requests (request_id text primary key references delegation_requests on delete cascade);
alter table platforms add column scope_descriptions jsonb not null default '{}';
-- The browser that signed in. Null: it did not name itself, or signed in before this migration.
alter table session_families add column user_agent text,
  add constraint session_families_user_agent_check check (length(user_agent) <= 256) not valid;
`;

const EXPLANATIONS = `
-- How explanations of denials keep values that may be personal.
alter table connections add column explanation_values text not null default 'rounded',
  add constraint connections_explanation_values_check
    check (explanation_values in ('full', 'rounded', 'hashed')) not valid;
create or replace trigger connections_changed
  after update of verifier_id, registry_answers, explanation_values on connections
  for each row when (old.verifier_id <> new.verifier_id or old.registry_answers <> new.registry_answers
    or old.explanation_values <> new.explanation_values)
  execute function notify_connection_keys();
`;

/** Runs before statements that lock other tables, because queries about the history lock in this order. */
const EXPLAINED_EVENTS = `
-- Which limit a denied proof exceeded, and the value that was sent.
alter table audit_events add column explanation jsonb;
`;

const ADDRESSES = `
-- Codes with which a person confirms a change of their account. Without new_email they delete the account.
create table account_codes (
  account_id uuid primary key references accounts on delete cascade,
  email text not null,
  code_hash bytea not null,
  new_email text,
  new_code_hash bytea,
  tries integer not null default 0,
  expires_at timestamptz not null,
  check ((new_email is null) = (new_code_hash is null))
);
-- Addresses that accounts had until lately. Until then, nobody else can open an account with them.
create table former_addresses (
  email text primary key,
  account_id uuid not null references accounts on delete cascade,
  token_hash bytea not null unique,
  expires_at timestamptz not null
);
create index on former_addresses (account_id);
`;

const LINKED_REQUESTS = `
-- The other one of two requests that one approval decided, because a limit made no sense for some scopes.
alter table delegation_requests add column linked_request_id text;
`;

const ASKED = `
-- The refusal that an agent asks about, and the hash of the refused action with its verifier.
alter table delegation_requests add column refusal jsonb, add column refused_action bytea;
-- The only action that the certificate allows, as the same hash. Null: every action within its scopes.
alter table certificates add column only_action bytea;
`;

const CREDITED = `
-- Keyed hashes of the addresses whose accounts had the alpha credit. They outlive the account.
create table credited_addresses (address_hash bytea primary key);
`;

/** Mails about requests, who set up what, and what requests, platforms and sign-ins say about themselves. */
export const mailsAndMakers = {
  name: "0032_mails_and_makers",
  sql:
    READ_MAKERS +
    EXPLAINED_EVENTS +
    STORE_MAKERS +
    MAILS +
    REQUESTS +
    EXPLANATIONS +
    ADDRESSES +
    LINKED_REQUESTS +
    CREDITED +
    KEYS +
    ASKED +
    OAUTH +
    CONNECT,
  indexes: [
    {
      name: "delegation_requests_undecided",
      table: "delegation_requests",
      on: "(expires_at) where status in ('pending', 'expired', 'withdrawn') and external_id is null",
    },
    {
      name: "delegation_requests_lapsing",
      table: "delegation_requests",
      on: "(expires_at) where status in ('pending', 'expired')",
    },
    {
      // Finds a person's acts with one operation beyond the limit.
      name: "organization_activity_alike",
      table: "organization_activity",
      on: "(organization_id, actor_account_id, operation, (status = 'refused'), occurred_at desc, activity_id desc)",
    },
    { name: "notices_account", table: "notices", on: "(account_id, type, created_at)" },
  ],
};

/** The ends of proposals to connect products, for the mails to their proposers, and saved filters. */
const proposalEndsAndFilters = {
  name: "0033_proposal_ends_and_saved_filters",
  sql: `
alter table connect_proposals
  -- When the proposal was declined, or was found to have lapsed. Null: it waits, or was approved.
  add column ended_at timestamptz,
  -- The member who declined it. No reference, because the account may be deleted later. Null: it lapsed.
  add column declined_by uuid;

-- Filters of the history that a member keeps. Nobody else sees them.
create table saved_filters (
  account_id uuid not null references accounts on delete cascade,
  person_id uuid not null references accounts on delete cascade,
  name text not null,
  query text not null,
  primary key (account_id, person_id, name)
);
create index on saved_filters (person_id);
`,
};

/** The migrations of this file, in order. A new one goes to the end. */
export const latest = [mailsAndMakers, proposalEndsAndFilters];
