import type { Pool } from "pg";

const ROWS_AT_ONCE = 100_000;
const RECEIPT_CHARACTERS = 700;

/** Numbers of rows in addition to those that the bench decides on. */
export type Stock = { certificates: number; history: number };

/**
 * Adds certificates to the existing accounts, and history rows with postings, until both numbers are reached.
 * No decision uses these rows. Their JSON is empty, because decisions do not read it.
 */
export async function fill(pool: Pool, from: Stock, to: Stock): Promise<void> {
  await inPieces(from.certificates, to.certificates, (first, last) => addCertificates(pool, first, last));
  await inPieces(from.history, to.history, (first, last) => addHistory(pool, first, last));
  for (const table of ["certificates", "delegation_requests", "audit_events", "ledger_postings"]) {
    await pool.query(`vacuum analyze ${table}`);
  }
  await pool.query("checkpoint");
}

async function inPieces(
  from: number,
  to: number,
  add: (first: number, last: number) => Promise<void>,
): Promise<void> {
  for (let first = from + 1; first <= to; first += ROWS_AT_ONCE) {
    await add(first, Math.min(first + ROWS_AT_ONCE - 1, to));
  }
}

const OWNERS = `(select account_id, connection_id, agent_id, row_number() over (order by agent_id) - 1 as place,
                        count(*) over () as owners from agents)`;

async function addCertificates(pool: Pool, first: number, last: number): Promise<void> {
  const numbered = `generate_series(${first}, ${last}) as n join ${OWNERS} as owner on owner.place = n % owner.owners`;
  await pool.query(
    `insert into delegation_requests (request_id, account_id, connection_id, agent_id, requested_scope, constraints,
                                      status, created_at, expires_at)
     select 'req-stock-' || n, account_id, connection_id, agent_id, '{data:read}', '[]', 'approved', now(), now()
     from ${numbered}`,
  );
  await pool.query(
    `insert into certificates (account_id, cert_id, connection_id, agent_id, request_id, approved_scope, cert_json,
                               status, issued_at, approved_by, approval_channel)
     select account_id, 'cert-' || gen_random_uuid(), connection_id, agent_id, 'req-stock-' || n, '{data:read}', '{}',
            'approved', now() - make_interval(secs => n % 1000000), account_id, 'session'
     from ${numbered}`,
  );
}

async function addHistory(pool: Pool, first: number, last: number): Promise<void> {
  const numbered = `(select n, date_trunc('month', now()) + (now() - date_trunc('month', now())) * random() as at
                     from generate_series(${first}, ${last}) as n) as row
                    join ${OWNERS} as owner on owner.place = n % owner.owners`;
  await pool.query(
    `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, human_id, cert_id,
                               decision, decision_reason, required_scope, receipt, receipt_hash)
     select account_id, at, gen_random_uuid(), 'proof.verified', connection_id, agent_id, agent_id,
            'cert-' || (n % 100000), 'allow', 'authorized', 'data:read', repeat('x', ${RECEIPT_CHARACTERS}),
            sha256(n::text::bytea)
     from ${numbered}`,
  );
  await pool.query(
    `insert into ledger_postings (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
     select account_id, at, sha256(n::text::bytea), 'verification', 'account', 'revenue', 1
     from ${numbered}`,
  );
}
