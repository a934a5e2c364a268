/** What products need so that customers connect to them with OAuth. A part of migration 0032. */
export const OAUTH = `
alter table platforms
  -- Where the service may send a browser back to after a customer has decided.
  add column redirect_uris text[] not null default '{}',
  -- The replaced client secret, and until when it is still accepted.
  add column signing_former_sealed bytea,
  add column signing_former_until timestamptz;
`;
