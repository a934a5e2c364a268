/**
 * A kept answer that shows a secret belongs to one sign-in and is emptied after minutes; its row stays, so
 * that the call is not made again. Those that were kept for a day until now are emptied at once.
 */
export const keptSecrets = {
  name: "0018_kept_secrets",
  sql: `
alter table idempotency_keys
  -- The sign-in that may see the answer again, and until when; null when it shows no secret. Emptied: no bytes.
  add column session_family uuid,
  add column secret_until timestamptz,
  add check ((session_family is null) = (secret_until is null));
create index idempotency_keys_secrets on idempotency_keys (secret_until) where octet_length(answer_sealed) > 0;
update idempotency_keys set answer_sealed = '', secret_until = created_at, session_family = account_id
where answer_sealed is not null and route_id in
  ('register_personal_platform', 'register_platform', 'rotate_api_key', 'rotate_webhook_secret');
`,
};
