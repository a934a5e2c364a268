/**
 * An answer that is kept belongs to who called: the person, or one connection. What was kept before does not
 * say whose it is and is forgotten.
 */
export const idempotencyCallers = {
  name: "0014_idempotency_callers",
  sql: `
delete from idempotency_keys;
alter table idempotency_keys add column caller text not null, drop constraint idempotency_keys_pkey,
  add primary key (account_id, caller, route_id, key);
`,
};
