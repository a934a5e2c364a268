/**
 * The chained audit. The triggers stop accidents; what stops a deliberate hand is the chain, whose key is in
 * the token.
 */
export const audit = {
  name: "0002_audit",
  sql: `
    CREATE TABLE audit (
      seq bigint PRIMARY KEY CHECK (seq > 0),
      recorded_at timestamptz(3) NOT NULL,
      caller text NOT NULL,
      role text NOT NULL,
      key_id text,
      purpose text,
      statement text NOT NULL,
      digest bytea CHECK (octet_length(digest) = 32),
      outcome text NOT NULL,
      detail jsonb NOT NULL,
      mac bytea NOT NULL CHECK (octet_length(mac) = 32)
    );

    CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'audit is append-only';
    END $$;
    CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
      FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
  `,
};
