/** What a connection's webhook secret is replaced by, and the one before it until its grace is over. */
export const webhookSecrets = {
  name: "0008_webhook_secrets",
  sql: `
alter table connections
  add column webhook_next_secret_sealed bytea,
  add column webhook_former_secret_sealed bytea,
  add column webhook_former_until timestamptz,
  add check ((webhook_former_secret_sealed is null) = (webhook_former_until is null));
create index connections_webhook_former on connections (webhook_former_until) where webhook_former_until is not null;
`,
};
