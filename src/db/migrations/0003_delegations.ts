/** Delegation requests and the certificates that approving them makes. */
export const delegations = {
  name: "0003_delegations",
  sql: `
create table delegation_requests (
  request_id text primary key,
  account_id uuid not null references accounts,
  connection_id uuid not null references connections,
  agent_id text not null references agents,
  requested_scope text[] not null,
  -- json, not jsonb: what was asked for is kept as it was written.
  constraints json not null,
  -- What the certificate's end was asked to be: a moment, or seconds after approval; neither: until revoked.
  requested_expires_at timestamptz,
  requested_expires_in integer,
  status text not null check (status in ('pending', 'approved', 'denied', 'expired', 'withdrawn')),
  reason text,
  decided_by uuid references accounts,
  decided_at timestamptz,
  external_id text unique,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index delegation_requests_account on delegation_requests (account_id, created_at desc, request_id desc);
create index delegation_requests_pending on delegation_requests (account_id, expires_at) where status = 'pending';
create index delegation_requests_connection on delegation_requests (connection_id) where status = 'pending';

create table certificates (
  account_id uuid not null references accounts,
  cert_id text not null,
  connection_id uuid not null references connections,
  agent_id text not null references agents,
  request_id text not null unique references delegation_requests,
  approved_scope text[] not null,
  -- Expanded ceiling of the platform after it shrank; null while it never did.
  ceiling_scope text[],
  cert_json text not null,
  status text not null check (status in ('approved', 'revoked')),
  issued_at timestamptz not null,
  expires_at timestamptz,
  approved_by uuid not null references accounts,
  approval_channel text not null,
  revoked_at timestamptz,
  revoke_reason text,
  primary key (account_id, cert_id)
);
create unique index certificates_cert on certificates (cert_id);
create index certificates_agent on certificates (agent_id, issued_at desc) where status = 'approved';
create index certificates_connection on certificates (connection_id) where status = 'approved';
create index certificates_history on certificates (account_id, issued_at desc, cert_id desc);
`,
};
