/** What objects of clusters take over that others, or people, have registered. */
export const adoptions = {
  name: "0021_adoptions",
  sql: `
-- The account's owner says that an object may take over a platform or an agent. Used once.
create table adoptions (
  kind text not null check (kind in ('platform', 'agent')),
  adopted_id text not null,
  account_id uuid not null references accounts on delete cascade,
  cluster_id text not null,
  namespace text not null,
  name text not null,
  confirmed_at timestamptz not null,
  primary key (kind, adopted_id)
);

-- Objects that something was taken over from: they register nothing in its place.
create table released_objects (
  external_id text primary key,
  released_at timestamptz not null
);
`,
};
