/** A migration: a numbered name and its SQL. */
export type Migration = { name: string; sql: string };

/**
 * The migrations in order, forward only. Never edit a migration that has landed: add a new one at the end.
 * Each migration keeps what the previous version needs.
 */
export const migrations: readonly Migration[] = [
  // Data keys of tenants, and the keys that they wrap. These rows are useless without the token.
  {
    name: "0001_keys",
    sql: `
      CREATE TABLE tenants (
        tenant text PRIMARY KEY,
        kek text NOT NULL,
        wrapped_data_key bytea NOT NULL,
        created_at timestamptz(3) NOT NULL
      );

      CREATE TABLE keys (
        key_id text PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{32}$'),
        tenant text NOT NULL REFERENCES tenants,
        purpose text NOT NULL CHECK (purpose IN ('account_root', 'agent', 'service')),
        label text NOT NULL,
        public_key jsonb NOT NULL,
        wrapped_seeds bytea NOT NULL,
        seeds_version integer NOT NULL,
        attestation jsonb NOT NULL,
        ceiling jsonb,
        state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')),
        created_at timestamptz(3) NOT NULL,
        disabled_at timestamptz(3),
        request_key text NOT NULL UNIQUE,
        request_hash bytea NOT NULL,
        CHECK ((state = 'disabled') = (disabled_at IS NOT NULL))
      );
      CREATE INDEX keys_by_tenant ON keys (tenant, created_at, key_id);
    `,
  },
  // The chained audit. Triggers prevent accidental changes. The chain, whose key is in the token, reveals
  // deliberate ones.
  {
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
  },
  // States beyond active and disabled, and requests that wait for a second admin. `state_mac` authenticates a
  // row's state and `state_seq`, the number of the audit record that set it. So a restored earlier state is
  // detected.
  {
    name: "0003_lifecycle",
    sql: `
      ALTER TABLE keys
        DROP CONSTRAINT keys_state_check,
        DROP CONSTRAINT keys_check,
        ADD COLUMN pending jsonb,
        ADD COLUMN destroy_at timestamptz(3),
        ADD COLUMN state_seq bigint,
        ADD COLUMN state_mac bytea CHECK (octet_length(state_mac) = 32),
        ADD CHECK (state IN ('active', 'disabled', 'destroying', 'destroyed')),
        ADD CHECK ((state = 'active') = (disabled_at IS NULL)),
        ADD CHECK ((state IN ('destroying', 'destroyed')) = (destroy_at IS NOT NULL));
      CREATE INDEX keys_destroying ON keys (destroy_at) WHERE state = 'destroying';

      ALTER TABLE tenants
        ADD COLUMN state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'destroying', 'destroyed')),
        ADD COLUMN pending jsonb,
        ADD COLUMN destroy_at timestamptz(3),
        ADD COLUMN state_seq bigint,
        ADD COLUMN state_mac bytea CHECK (octet_length(state_mac) = 32),
        ADD CHECK ((state IN ('destroying', 'destroyed')) = (destroy_at IS NOT NULL));
      CREATE INDEX tenants_destroying ON tenants (destroy_at) WHERE state = 'destroying';
      CREATE INDEX tenants_by_kek ON tenants (kek, tenant);

      CREATE INDEX audit_key_changes ON audit (key_id, seq)
        WHERE outcome = 'granted' AND statement IN
          ('key_disable', 'key_enable', 'key_destroy', 'key_destroy_cancel', 'key_erase', 'ceiling_shrink');
      CREATE INDEX audit_tenant_changes ON audit ((detail ->> 'tenant'), seq)
        WHERE outcome = 'granted' AND statement IN ('tenant_destroy', 'tenant_destroy_cancel', 'tenant_erase');
    `,
  },
  // Finds the last statement of a sequence in the audit.
  {
    name: "0004_sequences",
    sql: `
      CREATE INDEX audit_sequences ON audit (key_id, statement, (detail ->> 'stream'), seq)
        WHERE outcome = 'granted' AND detail ->> 'stream' IS NOT NULL;
    `,
  },
  // Keys with halves in the token, by their label there. The row is inserted before the token creates
  // anything, so that the label also finds the remains of a crash.
  {
    name: "0005_residents",
    sql: `
      CREATE TABLE residents (
        label text PRIMARY KEY CHECK (label ~ '^key-[0-9a-f]{32}$'),
        key_id text UNIQUE REFERENCES keys,
        created_at timestamptz(3) NOT NULL
      );
    `,
  },
  // Finds the root keys of a tenant in the audit, even if a row of theirs is missing.
  {
    name: "0006_roots",
    sql: `
      CREATE INDEX audit_roots ON audit ((detail ->> 'tenant'))
        WHERE outcome = 'granted' AND statement = 'key_create' AND purpose = 'account_root';
    `,
  },
  // Finds a key with halves in the token by the audit, even if its rows say otherwise.
  {
    name: "0007_resident_records",
    sql: `
      CREATE INDEX audit_residents ON audit ((detail ->> 'resident'))
        WHERE outcome = 'granted' AND statement = 'key_create' AND detail ->> 'resident' IS NOT NULL;
    `,
  },
  // A cache of the verified audit, in parts, so that a startup does not verify the chain from its first
  // record. The vault trusts a part only by its code. Decisions read from memory, so the indexes for them are
  // dropped.
  {
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
  },
  // The entries of each root key's last revocation list. The next list must contain them. The audit record of
  // the last list contains the digest.
  {
    name: "0009_listed_certificates",
    sql: `
      CREATE TABLE listed_certificates (
        key_id text NOT NULL REFERENCES keys,
        digest text NOT NULL,
        listed text NOT NULL,
        PRIMARY KEY (key_id, digest)
      );
    `,
  },
  // Keeps the count of a tenant's active keys fast, however many keys were disabled.
  {
    name: "0010_active_keys",
    sql: `
      CREATE INDEX keys_active ON keys (tenant) WHERE state = 'active';
    `,
  },
];
