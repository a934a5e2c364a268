import type { Database } from "../../src/db/connection.ts";

/** Adds that many revoked certificates to those of a certificate's account, with requests of their own, as if they had been issued. */
export async function addRevoked(db: Database, certId: string, count: number): Promise<void> {
  await db.raw(
    `with given as (select * from certificates where cert_id = :certId),
     made as (select 'req-' || gen_random_uuid() as request_id, 'cert-' || gen_random_uuid() as cert_id
              from generate_series(1, :count)),
     requests as (
       insert into delegation_requests (request_id, account_id, connection_id, agent_id, requested_scope, constraints,
                                        status, created_at, expires_at)
       select made.request_id, r.account_id, r.connection_id, r.agent_id, r.requested_scope, r.constraints,
              'approved', r.created_at, r.expires_at
       from made, given join delegation_requests r on r.request_id = given.request_id returning request_id)
     insert into certificates (account_id, cert_id, connection_id, agent_id, request_id, approved_scope, cert_json, status,
                               issued_at, expires_at, approved_by, approval_channel, revoked_at, revoke_reason)
     select g.account_id, made.cert_id, g.connection_id, g.agent_id, made.request_id, g.approved_scope, '{}', 'revoked',
            g.issued_at, g.expires_at, g.approved_by, g.approval_channel, g.issued_at, 'test'
     from given g, made`,
    { certId, count },
  );
}
