/**
 * What the verified audit says, in parts, so that a start need not verify the chain from its first record: a
 * cache that is believed by its codes only. What decides is answered from memory, and the indexes that it was
 * looked up by are gone.
 */
export const auditRegister = {
  name: "0008_audit_register",
  sql: `
    CREATE TABLE audit_register (
      part smallint PRIMARY KEY,
      seq bigint NOT NULL,
      head bytea NOT NULL,
      content bytea NOT NULL,
      mac bytea NOT NULL
    );

    DROP INDEX audit_key_changes;
    DROP INDEX audit_tenant_changes;
    DROP INDEX audit_sequences;
    DROP INDEX audit_roots;
    DROP INDEX audit_residents;
  `,
};
