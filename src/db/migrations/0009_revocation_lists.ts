/** The last revocation list of each root identity, as its key signed it. */
export const revocationLists = {
  name: "0009_revocation_lists",
  sql: `
create table revocation_lists (
  account_id uuid primary key references accounts,
  list_json text,
  -- Who has the next list signed, and until when nobody else does.
  run_id uuid,
  locked_until timestamptz,
  check ((run_id is null) = (locked_until is null))
);
create index certificates_revoked on certificates (account_id, cert_id) include (expires_at) where status = 'revoked';
`,
};
