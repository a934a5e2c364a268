import type { Database } from "../../src/db/database.ts";

/**
 * Adds that many revoked certificates to those of a certificate's account, with requests of their own, as if
 * they had been issued. Between the two the database counts the requests: a plan for the foreign key that was
 * made for a few rows would read all of them for each certificate.
 */
export async function addRevoked(db: Database, certId: string, count: number): Promise<void> {
  await db.raw(
    `insert into delegation_requests (request_id, account_id, connection_id, agent_id, requested_scope, constraints,
                                      status, created_at, expires_at)
     select 'req-' || gen_random_uuid(), r.account_id, r.connection_id, r.agent_id, r.requested_scope, r.constraints,
            'approved', r.created_at, r.expires_at
     from certificates c join delegation_requests r using (request_id), generate_series(1, :count)
     where c.cert_id = :certId`,
    { certId, count },
  );
  await db.raw("analyze delegation_requests");
  await db.raw(
    `insert into certificates (account_id, cert_id, connection_id, agent_id, request_id, approved_scope, cert_json, status,
                               issued_at, expires_at, approved_by, approval_channel, revoked_at, revoke_reason)
     select g.account_id, 'cert-' || gen_random_uuid(), g.connection_id, g.agent_id, r.request_id, g.approved_scope, '{}', 'revoked',
            g.issued_at, g.expires_at, g.approved_by, g.approval_channel, g.issued_at, 'test'
     from certificates g join delegation_requests r using (account_id)
     where g.cert_id = :certId and r.status = 'approved'
       and not exists (select from certificates c where c.request_id = r.request_id)`,
    { certId },
  );
}
