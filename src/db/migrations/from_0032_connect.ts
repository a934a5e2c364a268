/** Connections of customers: accounts that use another account's platform. A part of migration 0032. */
export const CONNECT = `
-- An own connection has its platform in platform_id. A customer connection has it in product_id instead, so that no
-- look-up of a platform's connection finds a customer's, whichever process looks. account_id is the publisher's in both.
alter table connections
  alter column platform_id drop not null,
  -- The callback and its secrets belong to the platform, so only the own connection has them.
  alter column webhook_secret_sealed drop not null,
  add column product_id uuid,
  add column customer_account_id uuid,
  -- The name that the customer chose to show to the publisher.
  add column customer_name text,
  -- The scopes that the customer chose, expanded. The platform's ceiling limits them further.
  add column allowed_scopes text[],
  -- The member who connected last.
  add column connected_by uuid,
  -- When the worker next ends what a removed connection still has. On an own connection: when it next looks whether all
  -- customers have ended. Null: nothing is left to end.
  add column end_due_at timestamptz,
  add constraint connections_product_id_fkey foreign key (product_id) references platforms not valid,
  add constraint connections_customer_account_id_fkey foreign key (customer_account_id) references accounts not valid,
  add constraint connections_kind_check check (
    case when platform_id is null
      then num_nulls(product_id, customer_account_id, customer_name, allowed_scopes) = 0
        and num_nonnulls(callback_url, webhook_secret_sealed) = 0
      else num_nonnulls(product_id, customer_account_id, customer_name, allowed_scopes) = 0
        and webhook_secret_sealed is not null end) not valid;

-- At most one live connection of a customer with a product. Both indexes are empty until customers connect.
create unique index connections_customers on connections (product_id, customer_account_id)
  where product_id is not null and removed_at is null;
create index connections_customer on connections (customer_account_id) where customer_account_id is not null;
-- The connections that the worker still has to end. Own ones, which wait for their customers, come last.
create index connections_ending on connections (product_id) where end_due_at is not null;

-- Ends the keys of locked customer connections, refuses everything there from the commit on, and leaves the rest to the
-- worker. Returns the prefixes of the keys. A decision locks its customer connection for key share, so that the stronger
-- lock waits for decisions under way. It comes last, because later decisions wait for the commit.
create function end_later(ids uuid[], at timestamptz) returns setof text language plpgsql as $$
begin
  return query update api_keys set retires_at = at
    where connection_id = any (ids) and (retires_at is null or retires_at > at) returning key_prefix;
  return query select key_prefix from narrow_keys where connection_id = any (ids) and ended_at is null;
  perform from connections where connection_id = any (ids) order by connection_id for update;
  update connections set removed_at = at, end_due_at = '-infinity' where connection_id = any (ids) and removed_at is null;
end $$;

-- The customers of a removed platform end with it, also if a process of the version before removes it, which knows none.
create function end_customers() returns trigger language plpgsql as $$
begin
  perform end_later(array_agg(connection_id), new.removed_at) from (
    select connection_id from connections where product_id = new.platform_id and removed_at is null
    order by connection_id for no key update) as customers;
  return null;
end $$;
create trigger platforms_removed after update of removed_at on platforms
  for each row when (old.removed_at is null and new.removed_at is not null) execute function end_customers();

-- The only connection at which the certificate counts: its own, if this is a customer's. Null: every connection that
-- accepts the root, except customer connections.
alter table certificates add column only_at uuid,
  -- The ceiling of a certificate with only_at or only_action. Its ceiling_scope is empty, so that processes of the version
  -- before deny what they would not check. Null: the certificate's own scopes.
  add column restricted_ceiling text[],
  add constraint certificates_restricted_check check (
    case when num_nonnulls(only_at, only_action) = 0 then restricted_ceiling is null
      else ceiling_scope is not null and ceiling_scope = '{}' end) not valid;

-- The platform's endpoint also gets the events of customers' connections. Null: an event of the own connection.
alter table webhook_deliveries add column customer_connection_id uuid;
alter table webhook_endpoints
  -- Paused because there is no callback URL, but events of customers.
  add column awaits_url boolean not null default false,
  -- The lane (connection) that a claim served last, so that each gets its turn.
  add column served_lane bigint not null default 0,
  -- Only deliveries that were created before this time are discarded.
  add column discard_before timestamptz;

-- Workers of the version before would drop the events of customers, so these get shards that such workers do not relay.
create function mark_customer_events() returns trigger language plpgsql as $$
begin
  if exists (select from connections where connection_id = new.aggregateid::uuid and product_id is not null) then
    new.aggregatetype := 'customer_connection';
    new.shard := new.shard % 8 + 8;
  end if;
  return new;
end $$;
create trigger outbox_customers before insert on outbox
  for each row when (new.aggregatetype in ('connection', 'customer_connection')) execute function mark_customer_events();

-- Without a callback URL, workers of the version before cancel what is pending. So the endpoint pauses if a customer's
-- event is among it. The lock comes first, so that the update sees what a concurrent change of the endpoint commits.
create function await_callback() returns trigger language plpgsql as $$
begin
  perform from webhook_endpoints where connection_id = new.connection_id for no key update;
  update webhook_endpoints e set state = 'paused', awaits_url = true
  where e.connection_id = new.connection_id and e.state = 'active' and exists (
    select from webhook_deliveries d where d.endpoint_id = e.endpoint_id
      and d.state in ('pending', 'held', 'sending') and d.customer_connection_id is not null);
  return null;
end $$;
create trigger connections_callback_cleared after update of callback_url on connections
  for each row when (old.callback_url is not null and new.callback_url is null) execute function await_callback();

-- The publisher and the customer see in their activity what the other one did. Null: no person of the account.
alter table organization_activity
  alter column actor_account_id drop not null,
  alter column actor_email drop not null,
  alter column actor_role drop not null;

-- The member who connected the product that asks. With four eyes, this member counts as the person who asked.
alter table delegation_requests add column connected_by uuid;
`;
