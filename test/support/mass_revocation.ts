import type { Database } from "../../src/db/database.ts";

/** Adds revoked certificates without requests and foreign-key checks, which would take most of the time. */
export function addRevoked(db: Database, certId: string, count: number): Promise<void> {
  return db.transaction(async (trx) => {
    await trx.raw("set local session_replication_role = replica");
    // On a busy machine, the insert takes longer than the API allows its own statements.
    await trx.raw("set local statement_timeout = 0");
    await trx.raw(
      `insert into certificates (account_id, cert_id, connection_id, agent_id, request_id, approved_scope, cert_json, status,
                                 issued_at, expires_at, approved_by, approval_channel, revoked_at, revoke_reason)
       select account_id, 'cert-' || gen_random_uuid(), connection_id, agent_id, 'req-' || gen_random_uuid(), approved_scope,
              '{}', 'revoked', issued_at, expires_at, approved_by, approval_channel, issued_at, 'test'
       from certificates, generate_series(1, :count) where cert_id = :certId`,
      { certId, count },
    );
  });
}
