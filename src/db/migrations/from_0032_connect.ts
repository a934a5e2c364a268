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

-- The keys of a removed platform's customers end with it, whichever process removes it.
create function end_customer_keys() returns trigger language plpgsql as $$
begin
  update api_keys k set retires_at = new.removed_at from connections c
  where c.product_id = new.platform_id and c.removed_at is null and k.connection_id = c.connection_id
    and (k.retires_at is null or k.retires_at > new.removed_at);
  update narrow_keys k set ended_at = new.removed_at, undelivered_sealed = null from connections c
  where c.product_id = new.platform_id and c.removed_at is null and k.connection_id = c.connection_id and k.ended_at is null;
  return null;
end $$;
create trigger platforms_removed after update of removed_at on platforms
  for each row when (old.removed_at is null and new.removed_at is not null) execute function end_customer_keys();

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
`;
