/** Which clusters act for which accounts, and who approves there. */
export const clusters = {
  name: "0020_clusters",
  sql: `
-- The one cluster that the operator's shared token is good for: the first that used it.
create table operator_token_cluster (
  single boolean primary key default true check (single),
  cluster_id text not null
);
insert into operator_token_cluster (cluster_id)
select min(cluster_id) from operator_clusters having count(*) = 1;

-- Namespaces of clusters that want to act for an account; without accepted_at the owner has not said yes.
create table namespace_bindings (
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  -- The most that a platform from there may allow; null sets no bound.
  ceiling text[],
  -- Whether an approval in the cluster needs another person than the one who asked.
  four_eyes boolean not null default false,
  asked_at timestamptz not null,
  accepted_at timestamptz,
  primary key (account_id, cluster_id, namespace)
);

-- Users of clusters whose approvals count as the account owner's.
create table cluster_approvers (
  approver_id uuid primary key,
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  username text not null,
  linked_at timestamptz not null,
  unique (account_id, cluster_id, username)
);

-- The ceiling that an object's platform last had: created again under its name it gets no wider one.
create table declared_ceilings (
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  name text not null,
  ceiling text[] not null,
  primary key (account_id, cluster_id, namespace, name)
);

-- Where the object is that declares it; null when a person registered it.
alter table platforms add column object_namespace text, add column object_name text;
-- Of an account's platforms one at most is declared under a name.
create unique index platforms_object on platforms
  (account_id, split_part(external_id, '.', 1), object_namespace, object_name)
  where removed_at is null and object_name is not null;
alter table agents add column object_name text;

-- The object that declares it; the user who decided in its cluster, and the hash of the policies there.
alter table delegation_requests
  add column object_name text,
  add column decided_cluster text,
  add column decided_user text,
  add column decided_policies text;
`,
};
